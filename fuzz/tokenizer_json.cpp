// Fuzzes tokenizer.json: any bytes must give a usable vocabulary or be rejected with fovea::Error.
#include "text/tokenizer_json.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/cut_texts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fovea::cut_texts(text, [&] { return fovea::text::read_tokenizer_json(text, "fuzz"); });
  return 0;
}
