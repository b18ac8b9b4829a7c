// Fuzzes texts: any bytes must be cleaned and encoded to the requested number of ids, or rejected.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <unistd.h>

#include "core/utf8.hpp"
#include "fovea/error.hpp"
#include "text/clean.hpp"
#include "text/small_tokenizer.hpp"
#include "text/tokenizer.hpp"

namespace {

const fovea::text::Tokenizer& small_tokenizer() {
  static const fovea::text::Tokenizer tokenizer = [] {
    std::string folder = (std::filesystem::temp_directory_path() / "fovea-fuzz-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) {
      std::abort();
    }
    fovea::text::write_small_tokenizer(folder);
    fovea::text::Tokenizer read{std::filesystem::path(folder)};
    std::filesystem::remove_all(folder);
    return read;
  }();
  return tokenizer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fovea::TextClean;
  const std::string_view given(reinterpret_cast<const char*>(data), size);
  const bool is_text = fovea::utf8_characters(given).has_value();
  for (const TextClean clean :
       {TextClean::kAuto, TextClean::kLower, TextClean::kCanonicalize, TextClean::kNone}) {
    try {
      if (small_tokenizer().encode(given, 16, clean).size() != 16 || !is_text) {
        std::abort();
      }
    } catch (const fovea::Error&) {
      if (is_text) {
        std::abort();
      }
    }
  }
  if (!is_text) {
    return 0;
  }
  // Cleaning must keep texts well-formed, and must be idempotent.
  for (const auto& clean :
       {fovea::text::lower, fovea::text::canonicalize, fovea::text::collapse_spaces}) {
    const std::string once = clean(given);
    if (!fovea::utf8_characters(once).has_value() || clean(once) != once) {
      std::abort();
    }
  }
  return 0;
}
