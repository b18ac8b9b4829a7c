// Fuzzes format detection, all decoders, and the resize while decoding, with unlimited memory and
// with the smallest pool that a job may grant. It leaves out libheif, which is loaded at run time
// and not instrumented: scripts/attack tests it with damaged files.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "image/decode.hpp"

namespace {

void decode_and_resize(std::span<const std::byte> bytes,
                       const fovea::image::DecodeOptions& options) {
  try {
    const fovea::image::Image image = fovea::image::decode(bytes, options);
    std::vector<std::uint8_t> out(std::size_t{13} * 11 * 3);
    const fovea::image::Size size_seen =
        fovea::image::decode_resized(bytes, 13, 11, fovea::Resample::kBicubic, options, out);
    if (size_seen != fovea::image::Size{image.width, image.height, image.lost_range}) {
      __builtin_trap();
    }
  } catch (const fovea::ResourceError&) {  // this process has enough memory
    __builtin_trap();
  } catch (const fovea::Error&) {  // rejecting an input is correct
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*arguments*/) {
  setenv("FOVEA_LIBHEIF", "/dev/null", 1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  decode_and_resize(bytes, {.max_pixels = 1 << 14});
  constexpr std::size_t kSmallPool = std::size_t{128} << 10;
  fovea::MemoryPool memory(kSmallPool);
  decode_and_resize(bytes, {.max_pixels = 1 << 14, .memory = &memory});
  return 0;
}
