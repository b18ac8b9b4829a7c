// A program for test_pixels.py: pixels of the image library as raw bytes.
// Each line of stdin is "HEIGHT WIDTH FILTER PATH"; HEIGHT 0 asks for decode() alone, FILTER is
// 2 (bilinear) or 3 (bicubic). For each, stdout gets "ok WIDTH HEIGHT BYTES\n" and the bytes, or
// "error BYTES\n" and the message; WIDTH and HEIGHT are the decoded, upright size.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "image/decode.hpp"
#include "image/resize.hpp"

namespace {

using fovea::image::Image;
using fovea::image::Size;

void put(const std::string& header, const void* bytes, std::size_t size) {
  std::fwrite(header.data(), 1, header.size(), stdout);
  std::fwrite(bytes, 1, size, stdout);
  std::fflush(stdout);
}

void answer(int height, int width, fovea::Resample filter, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> content(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(content));
  if (height == 0) {
    const Image image = fovea::image::decode(bytes);
    put("ok " + std::to_string(image.width) + " " + std::to_string(image.height) + " " +
            std::to_string(image.pixels.size()) + "\n",
        image.pixels.data(), image.pixels.size());
    return;
  }
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height) *
                                   static_cast<std::size_t>(width) * 3);
  const Size size = fovea::image::decode_resized(bytes, height, width, filter, {}, pixels);
  put("ok " + std::to_string(size.width) + " " + std::to_string(size.height) + " " +
          std::to_string(pixels.size()) + "\n",
      pixels.data(), pixels.size());
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      std::istringstream words(line);
      int height = 0;
      int width = 0;
      int filter = 0;
      std::string path;
      words >> height >> width >> filter >> std::ws;
      std::getline(words, path);
      answer(height, width, static_cast<fovea::Resample>(filter), path);
    } catch (const std::exception& error) {
      const std::string message = error.what();
      put("error " + std::to_string(message.size()) + "\n", message.data(), message.size());
    }
  }
  return 0;
}
