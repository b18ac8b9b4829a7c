// Fuzzes tokenizer.model and spiece.model: any bytes must give a usable vocabulary or be rejected
// with fovea::Error, and writing a vocabulary and reading it again must not change it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/cut_texts.hpp"
#include "text/model_proto.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  fovea::cut_texts(file, [&] {
    fovea::text::Vocabulary vocabulary = fovea::text::read_model_proto(file, "fuzz");
    const std::string written = fovea::text::write_model_proto(vocabulary);
    if (fovea::text::write_model_proto(fovea::text::read_model_proto(written, "fuzz")) != written) {
      std::abort();
    }
    return vocabulary;
  });
  return 0;
}
