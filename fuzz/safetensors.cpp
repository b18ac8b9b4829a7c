// Fuzzes safetensors files: any bytes must be parsed or rejected with fovea::Error, and parsed
// tensors must cover the data of the file without gaps or overlap.
#include "model/safetensors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "fovea/error.hpp"

using fovea::model::kSafetensorsLengthBytes;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const auto start =
        std::as_bytes(std::span(data, std::min<std::size_t>(size, kSafetensorsLengthBytes)));
    const std::size_t header = fovea::model::safetensors_header_bytes(start, size, "fuzz");
    std::size_t total = 0;
    for (const auto& [name, tensor] : fovea::model::parse_safetensors(
             file.substr(kSafetensorsLengthBytes, header), size, "fuzz")) {
      total += tensor.bytes;
      const bool inside = tensor.offset >= kSafetensorsLengthBytes + header &&
                          tensor.offset <= size && tensor.bytes <= size - tensor.offset;
      if (!inside || tensor.shape_text().empty()) {
        std::abort();
      }
    }
    if (total + kSafetensorsLengthBytes + header != size) {
      std::abort();
    }
  } catch (const fovea::Error&) {
  }
  return 0;
}
