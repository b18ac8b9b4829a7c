// Measures the image library on one thread: image_bench SECONDS HEIGHT WIDTH FILTER FILE
// Prints one JSON object: images per second of decode, resize and decode_resized. FILTER is 2 or 3.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "image/decode.hpp"
#include "image/resize.hpp"
#include "image/resize_kernels.hpp"

namespace {

template <typename Work>
double rate(double seconds, Work work) {
  using Clock = std::chrono::steady_clock;
  work();  // warm-up: allocates buffers and computes filter weights
  const auto start = Clock::now();
  double elapsed = 0.0;
  int count = 0;
  while (elapsed < seconds || count < 3) {
    work();
    ++count;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return count / elapsed;
}

int run(std::span<char*> arguments) {
  if (arguments.size() != 6) {
    std::cerr << "usage: image_bench SECONDS HEIGHT WIDTH FILTER FILE\n";
    return 2;
  }
  const double seconds = std::stod(arguments[1]);
  const int height = std::stoi(arguments[2]);
  const int width = std::stoi(arguments[3]);
  const auto filter = static_cast<fovea::Resample>(std::stoi(arguments[4]));
  std::ifstream file(arguments[5], std::ios::binary);
  const std::vector<char> content(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(content));

  std::vector<std::uint8_t> out(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                                3);
  const fovea::image::Image image = fovea::image::decode(bytes);
  const double decode = rate(seconds, [&] { (void)fovea::image::decode(bytes); });
  const double resize =
      rate(seconds, [&] { fovea::image::resize(image, height, width, filter, out); });
  const double fused =
      rate(seconds, [&] { fovea::image::decode_resized(bytes, height, width, filter, {}, out); });
  std::cout << fmt::format(
      R"({{"decode": {:.2f}, "resize": {:.2f}, "decode + resize": {:.2f}, "simd": "{}"}})", decode,
      resize, fused, fovea::image::resize_target());
  std::cout << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv, static_cast<std::size_t>(argc)});
  } catch (const std::exception& error) {
    std::cerr << "image_bench: " << error.what() << '\n';
    return 1;
  }
}
