// Fuzzes Fovea's BMP reader: the signature of a BMP is put before every input.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "image/decode.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> bytes{'B', 'M'};
  bytes.insert(bytes.end(), data, data + size);
  try {
    const fovea::image::Image image =
        fovea::image::decode(std::as_bytes(std::span(bytes)), {.max_pixels = 1 << 14});
    // Reads every pixel, so that the memory sanitizer sees those that were never written.
    volatile std::uint64_t sum = std::accumulate(
        image.pixels.data(), image.pixels.data() + image.pixels.size(), std::uint64_t{0});
    (void)sum;
  } catch (const fovea::Error&) {  // rejecting an input is correct
  }
  return 0;
}
