// What a decoding may take: memory from a pool, and time until it is stopped.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "image/decode.hpp"
#include "image/encode.hpp"

namespace fovea::image {
namespace {

using test::Data;
using test::noise;

constexpr std::size_t kLarge = std::size_t{64} << 20;

std::span<const std::byte> limited_bytes(const Data& data) {
  return std::as_bytes(std::span(data));
}

std::map<std::string, Data> images_of(int width, int height) {
  const Image image = noise(width, height);
  return {{"JPEG", test::jpeg(image)}, {"PNG", test::png(image)},
          {"WebP", test::webp(image)}, {"GIF", test::gif(width, height)},
          {"BMP", test::bmp(image)},   {"TIFF", test::tiff(image)}};
}

void resize_to_8(const Data& data, const DecodeOptions& options) {
  std::vector<std::uint8_t> out(8 * 8 * 3);
  decode_resized(limited_bytes(data), 8, 8, Resample::kBilinear, options, out);
}

TEST(Limits, AStoppedDecodingThrowsInterrupted) {
  const std::atomic<bool> stop{true};
  for (const auto& [format, data] : images_of(64, 48)) {
    EXPECT_THROW(resize_to_8(data, {.stop = &stop}), Interrupted) << format;
    EXPECT_THROW((void)decode(limited_bytes(data), {.stop = &stop}), Interrupted) << format;
  }
}

TEST(Limits, SmallImagesDoNotWaitForMemory) {
  MemoryPool pool(kLarge);
  const MemoryPool::Lease all = pool.take(kLarge);
  for (const auto& [format, data] : images_of(640, 480)) {
    resize_to_8(data, {.memory = &pool});
  }
}

TEST(Limits, LargeImagesWaitForMemoryUntilTheyAreStopped) {
  MemoryPool pool(kLarge);
  const MemoryPool::Lease all = pool.take(kLarge);
  std::atomic<bool> stop{false};
  std::thread later([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  EXPECT_THROW(resize_to_8(test::bmp(noise(1300, 1100)), {.stop = &stop, .memory = &pool}),
               Interrupted);
  later.join();
}

TEST(Limits, MemoryIsGivenBackAfterSuccessAndFailure) {
  for (auto& [format, data] : images_of(1300, 1100)) {
    MemoryPool pool(kLarge);
    resize_to_8(data, {.memory = &pool});
    (void)decode(limited_bytes(data), {.memory = &pool});
    data.resize(data.size() / 2);
    EXPECT_THROW(resize_to_8(data, {.memory = &pool}), Error) << format;
    // Waits for ever when some is missing.
    EXPECT_EQ(pool.take(kLarge).bytes(), kLarge);
  }
}

TEST(Limits, AnImageThatNeedsMoreThanAllIsRefusedAndNoResourceIsLacking) {
  for (const auto& [format, data] : images_of(1300, 1100)) {
    MemoryPool pool(1'000'000);
    try {
      (void)decode(limited_bytes(data), {.memory = &pool});
      ADD_FAILURE() << format << " was decoded";
    } catch (const ResourceError& error) {
      ADD_FAILURE() << error.what();
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find(format + ": decoding 1300x1100 pixels of this kind needs "), 0U)
          << message;
      EXPECT_NE(message.find(" MB of memory, more than the 1 MB that decoding may use; "
                             "--decode-memory raises the limit"),
                std::string::npos)
          << message;
    }
  }
}

TEST(Limits, TheTurnedCopyCounts) {
  const int side = 1500;  // 6.75 MB
  MemoryPool pool(10'000'000);
  EXPECT_NO_THROW((void)decode(limited_bytes(test::jpeg(noise(side, side))), {.memory = &pool}));
  const Data turned = test::jpeg(noise(side, side), 6);
  EXPECT_THROW((void)decode(limited_bytes(turned), {.memory = &pool}), Error);
  EXPECT_NO_THROW(
      (void)decode(limited_bytes(turned), {.apply_orientation = false, .memory = &pool}));
  EXPECT_NO_THROW(resize_to_8(turned, {.memory = &pool}));
}

}  // namespace
}  // namespace fovea::image
