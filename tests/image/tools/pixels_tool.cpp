// A program for the tests against Pillow: pixels of the image library as raw bytes.
//   pixels_tool [--decode-memory BYTES] [--stop-after MILLISECONDS]
// Each line of stdin is "HEIGHT WIDTH FILTER PATH"; HEIGHT 0 asks for decode() alone, FILTER is
// 2 (bilinear) or 3 (bicubic). For each, stdout gets "ok WIDTH HEIGHT BYTES LOST\n" and the bytes,
// or "error BYTES\n" and the message; WIDTH and HEIGHT are the decoded, upright size, LOST is 1
// where the image has lost a part of its range. The line "target HEIGHT WIDTH PATCH MAX_PATCHES"
// asks for the size of such an image in a NaFlex model: "ok WIDTH HEIGHT 0 0\n".
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/memory_pool.hpp"
#include "image/decode.hpp"
#include "image/resize.hpp"

namespace {

using fovea::image::DecodeOptions;
using fovea::image::Image;
using fovea::image::Size;

void put(const std::string& header, const void* bytes, std::size_t size) {
  std::fwrite(header.data(), 1, header.size(), stdout);
  std::fwrite(bytes, 1, size, stdout);
  std::fflush(stdout);
}

void put_pixels(const Size& size, const void* bytes, std::size_t count) {
  put("ok " + std::to_string(size.width) + " " + std::to_string(size.height) + " " +
          std::to_string(count) + (size.lost_range ? " 1\n" : " 0\n"),
      bytes, count);
}

DecodeOptions options;

void answer(int height, int width, fovea::Resample filter, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> content(static_cast<std::size_t>(std::filesystem::file_size(path)));
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  const auto bytes = std::as_bytes(std::span(content));
  if (height == 0) {
    const Image image = fovea::image::decode(bytes, options);
    put_pixels({image.width, image.height, image.lost_range}, image.pixels.data(),
               image.pixels.size());
    return;
  }
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height) *
                                   static_cast<std::size_t>(width) * 3);
  const Size size = fovea::image::decode_resized(bytes, height, width, filter, options, pixels);
  put_pixels(size, pixels.data(), pixels.size());
}

void answer_target(std::istream& words) {
  int height = 0;
  int width = 0;
  fovea::Preprocessing preprocessing{.height = 0, .width = 0};
  words >> height >> width >> preprocessing.patch >> preprocessing.max_patches;
  const auto [rows, columns] = fovea::image::target_size(preprocessing, height, width);
  put_pixels({columns, rows}, nullptr, 0);
}

/// Sets a flag a while after it was made, or when it is destroyed.
class Stopper {
 public:
  Stopper(std::atomic<bool>& flag, int milliseconds) {
    flag = false;
    if (milliseconds >= 0) {
      thread_ = std::thread([this, &flag, milliseconds] {
        std::unique_lock lock(mutex_);
        over_.wait_for(lock, std::chrono::milliseconds(milliseconds), [this] { return is_over_; });
        flag = true;
      });
    }
  }
  ~Stopper() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Stopper(const Stopper&) = delete;
  Stopper& operator=(const Stopper&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

int run(std::span<char*> arguments) {
  std::optional<fovea::MemoryPool> memory;
  std::atomic<bool> stop{false};
  int stop_after = -1;
  options.stop = &stop;
  for (std::size_t index = 1; index + 1 < arguments.size(); index += 2) {
    if (std::string_view(arguments[index]) == "--decode-memory") {
      options.memory = &memory.emplace(std::stoull(arguments[index + 1]));
    } else {
      stop_after = std::stoi(arguments[index + 1]);
    }
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      std::istringstream words(line);
      if (line.starts_with("target ")) {
        words.ignore(std::string_view("target ").size());
        answer_target(words);
        continue;
      }
      int height = 0;
      int width = 0;
      int filter = 0;
      std::string path;
      words >> height >> width >> filter >> std::ws;
      std::getline(words, path);
      const Stopper stopper(stop, stop_after);
      answer(height, width, static_cast<fovea::Resample>(filter), path);
    } catch (const std::exception& error) {
      const std::string message = error.what();
      put("error " + std::to_string(message.size()) + "\n", message.data(), message.size());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run({argv, static_cast<std::size_t>(argc)});
}
