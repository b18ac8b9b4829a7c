// Any bytes as a safetensors file: parsed or refused with fovea::Error, and what is parsed lies
// within the file without overlap.
#include "model/safetensors.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "fovea/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  try {
    std::size_t total = 0;
    for (const auto& [name, tensor] : fovea::model::parse_safetensors(file, "fuzz")) {
      total += tensor.bytes.size();
      const bool inside = tensor.bytes.empty() || (tensor.bytes.data() >= file.data() + 8 &&
                                                   &tensor.bytes.back() <= &file.back());
      if (!inside || tensor.shape_text().empty()) {
        std::abort();
      }
    }
    if (total + 8 > size) {
      std::abort();
    }
  } catch (const fovea::Error&) {
  }
  return 0;
}
