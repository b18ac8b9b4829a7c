// Implements fovea::tokenize with src/text.
#include "fovea/text.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "core/error.hpp"
#include "hub/resolve.hpp"
#include "io/file.hpp"
#include "io/text.hpp"
#include "model/config.hpp"
#include "text/tokenizer.hpp"

namespace fovea {
namespace {

std::int64_t trained_length(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  return io::exists(path)
             ? model::parse_text_config(io::read_small_file(path), io::escape(path.native())).tokens
             : model::TextConfig().tokens;
}

}  // namespace

std::vector<TokenizedText> tokenize(const TokenizeOptions& options,
                                    std::span<const std::string> texts) {
  const std::filesystem::path folder = hub::resolve_model(options.model);
  const text::Tokenizer tokenizer(folder);
  const std::int64_t length = options.length == 0 ? trained_length(folder) : options.length;
  std::vector<TokenizedText> results;
  results.reserve(texts.size());
  for (std::size_t index = 0; index < texts.size(); ++index) {
    TokenizedText result;
    try {
      result.ids = tokenizer.encode(texts[index], length, options.clean);
      result.tokens =
          static_cast<std::int64_t>(tokenizer.tokens(texts[index], options.clean).size());
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      if (texts.size() == 1) {
        throw;
      }
      fail("text {} of {}: {}", index + 1, texts.size(), error.what());
    }
    result.truncated = result.tokens >= length;
    for (const std::int32_t id : result.ids) {
      result.pieces.push_back(tokenizer.piece(id));
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace fovea
