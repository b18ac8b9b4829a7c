// Fuzzes the .npy header parser: accepted arrays must fill the input exactly.
#include "io/npy.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "fovea/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto file = std::as_bytes(std::span(data, size));
    const fovea::io::NpyInfo info =
        fovea::io::parse_npy(file.first(std::min(size, fovea::io::kMaxNpyHeadBytes)), file.size());
    const std::size_t item = fovea::size_of(info.dtype);
    const auto elements = static_cast<std::size_t>(info.shape.elements());
    if (info.data_offset % item != 0 || info.data_offset + elements * item != size) {
      std::abort();
    }
  } catch (const fovea::Error&) {
    return 0;
  }
  return 0;
}
