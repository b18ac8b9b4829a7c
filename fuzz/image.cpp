// Any bytes through the recognition of formats, every decoder, and the resize while decoding.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "image/decode.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const fovea::image::DecodeOptions options{.max_pixels = 1 << 14};
  try {
    const fovea::image::Image image = fovea::image::decode(bytes, options);
    std::vector<std::uint8_t> out(std::size_t{13} * 11 * 3);
    const fovea::image::Size size_seen =
        fovea::image::decode_resized(bytes, 13, 11, fovea::Resample::kBicubic, options, out);
    if (size_seen != fovea::image::Size{image.width, image.height}) {
      __builtin_trap();
    }
  } catch (const fovea::Error&) {  // a refusal is an answer
  }
  return 0;
}
