// Fuzzes fat binaries: any bytes must be rejected with fovea::Error, or their PTX can be unpacked.
#include "lab/programs/fatbin.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

#include "fovea/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMaxPtx = std::size_t{1} << 20U;
  try {
    for (const fovea::programs::CodeEntry& entry :
         fovea::programs::read_fatbin(std::as_bytes(std::span(data, size)))) {
      (void)fovea::programs::unpack_ptx(entry, kMaxPtx);
    }
  } catch (const fovea::Error&) {
    return 0;
  }
  return 0;
}
