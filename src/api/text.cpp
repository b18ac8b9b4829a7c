// fovea::tokenize over src/text.
#include "fovea/text.hpp"

#include <cstddef>
#include <string_view>

#include "core/error.hpp"
#include "hub/resolve.hpp"
#include "text/tokenizer.hpp"

namespace fovea {

std::vector<TokenizedText> tokenize(const TokenizeOptions& options,
                                    std::span<const std::string> texts) {
  const text::Tokenizer tokenizer(hub::resolve_model(options.model));
  std::vector<TokenizedText> results;
  results.reserve(texts.size());
  for (std::size_t index = 0; index < texts.size(); ++index) {
    TokenizedText result;
    try {
      result.ids = tokenizer.encode(texts[index], options.length, options.clean);
      result.tokens =
          static_cast<std::int64_t>(tokenizer.tokens(texts[index], options.clean).size());
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      if (texts.size() == 1) {
        throw;
      }
      fail("text {} of {}: {}", index + 1, texts.size(), error.what());
    }
    result.truncated = result.tokens >= options.length;
    for (const std::int32_t id : result.ids) {
      result.pieces.push_back(tokenizer.piece(id));
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace fovea
