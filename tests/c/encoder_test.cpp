// The C interface: values of the C++ one, failures one by one, runs that end early.
#include "fovea/c/encoder.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "fovea/c/features.h"
#include "fovea/encoder.hpp"
#include "fovea/job.hpp"
#include "fovea/model.hpp"

namespace fovea::c::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kWaitMilliseconds = 60'000;

struct FreeEncoder {
  void operator()(fovea_encoder* encoder) const { fovea_encoder_free(encoder); }
};
struct FreeRun {
  void operator()(fovea_embedding* run) const { fovea_embed_free(run); }
};
using RunPtr = std::unique_ptr<fovea_embedding, FreeRun>;

fovea_image file(const std::string& path) {
  return {
      .kind = FOVEA_IMAGE_FILE, .width = 0, .height = 0, .data = path.data(), .size = path.size()};
}

fovea_image encoded(const std::vector<char>& bytes) {
  return {.kind = FOVEA_IMAGE_ENCODED,
          .width = 0,
          .height = 0,
          .data = bytes.data(),
          .size = bytes.size()};
}

fovea_image pixels(int width, int height, const std::vector<std::uint8_t>& rgb) {
  return {.kind = FOVEA_IMAGE_PIXELS,
          .width = width,
          .height = height,
          .data = rgb.data(),
          .size = rgb.size()};
}

// A binary PPM's pixels as an uncompressed 24-bit BMP: the same image, encoded.
std::vector<char> bitmap(int width, int height, const std::vector<std::uint8_t>& rgb) {
  const std::size_t row = (static_cast<std::size_t>(width) * 3 + 3) / 4 * 4;
  std::vector<char> bytes(54 + row * static_cast<std::size_t>(height));
  const auto put = [&](std::size_t offset, std::uint32_t value) {
    for (int byte = 0; byte < 4; ++byte) {
      bytes[offset++] = static_cast<char>(value >> (8 * byte));
    }
  };
  bytes[0] = 'B';
  bytes[1] = 'M';
  put(2, static_cast<std::uint32_t>(bytes.size()));
  put(10, 54);
  put(14, 40);
  put(18, static_cast<std::uint32_t>(width));
  put(22, static_cast<std::uint32_t>(height));
  put(26, 1U | 24U << 16);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        bytes[54 + static_cast<std::size_t>(height - 1 - y) * row +
              static_cast<std::size_t>(x * 3 + channel)] =
            static_cast<char>(rgb[static_cast<std::size_t>((y * width + x) * 3 + 2 - channel)]);
      }
    }
  }
  return bytes;
}

class CInterface : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string pattern = (fs::temp_directory_path() / "fovea-c-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    init_checkpoint({.preset = "tiny", .folder = folder / "model", .threads = 1});
  }
  static void TearDownTestSuite() { fs::remove_all(folder); }

  void SetUp() override {
    fovea_encoder* loaded = nullptr;
    ASSERT_EQ(fovea_encoder_load(model().c_str(), "cpu", "fp32", 2, &loaded), FOVEA_OK)
        << fovea_last_error();
    encoder_.reset(loaded);
    dimension_ = static_cast<std::size_t>(fovea_encoder_dimension(loaded));
    for (std::size_t i = 0; i < rgb_.size(); ++i) {
      rgb_[i] = static_cast<std::uint8_t>(i * 7 + i / 100);
    }
    bitmap_ = bitmap(kWidth, kHeight, rgb_);
  }

  static std::string model() { return (folder / "model").native(); }

  static std::string write(const std::string& name, const std::vector<char>& bytes) {
    std::ofstream(folder / name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return (folder / name).native();
  }

  RunPtr start(const std::vector<fovea_image>& images, std::vector<float>& rows,
               const fovea_embed_options& options) {
    rows.assign(images.size() * dimension_, 7.0F);
    fovea_embedding* run = nullptr;
    EXPECT_EQ(fovea_embed_start(encoder_.get(), images.data(), images.size(), &options, rows.data(),
                                &run),
              FOVEA_OK)
        << fovea_last_error();
    return RunPtr(run);
  }

  static void finish(const RunPtr& run) {
    std::int32_t ended = 0;
    ASSERT_EQ(fovea_embed_wait(run.get(), kWaitMilliseconds, &ended), FOVEA_OK)
        << fovea_last_error();
    ASSERT_EQ(ended, 1);
  }

  [[nodiscard]] std::vector<float> row(const std::vector<float>& rows, std::size_t index) const {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(index * dimension_);
    return {begin, begin + static_cast<std::ptrdiff_t>(dimension_)};
  }

  static inline fs::path folder;
  static constexpr int kWidth = 61;
  static constexpr int kHeight = 83;
  static constexpr fovea_embed_options kDefaults{.batch_size = 0,
                                                 .decode_threads = 0,
                                                 .normalize = 1,
                                                 .stop_at_failure = 0,
                                                 .decode_memory = 0,
                                                 .max_pixels = 0};
  std::vector<std::uint8_t> rgb_ = std::vector<std::uint8_t>(std::size_t{kWidth} * kHeight * 3);
  std::vector<char> bitmap_;
  std::unique_ptr<fovea_encoder, FreeEncoder> encoder_;
  std::size_t dimension_ = 0;
};

TEST_F(CInterface, FilesBytesAndPixelsAreOneImage) {
  const std::string path = write("a.bmp", bitmap_);
  std::vector<float> rows;
  const RunPtr run = start({file(path), encoded(bitmap_), pixels(kWidth, kHeight, rgb_)}, rows,
                           {.batch_size = 0,
                            .decode_threads = 0,
                            .normalize = 0,
                            .stop_at_failure = 0,
                            .decode_memory = 0,
                            .max_pixels = 0});
  finish(run);
  EXPECT_EQ(fovea_embed_done(run.get()), 3U);
  EXPECT_EQ(fovea_embed_failures(run.get()), 0U);
  EXPECT_STREQ(fovea_embed_notes(run.get()), "");
  Encoder expected(model(), {.device = "cpu", .precision = Precision::kFp32, .threads = 2});
  for (std::size_t index = 0; index < 3; ++index) {
    EXPECT_EQ(row(rows, index), expected.embed_file(path, false)) << index;
  }
}

TEST_F(CInterface, LengthsAreOneWhenAskedFor) {
  std::vector<float> rows;
  finish(start({pixels(kWidth, kHeight, rgb_)}, rows, kDefaults));
  double squares = 0;
  for (const float value : rows) {
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(squares, 1.0, 1e-6);
}

TEST_F(CInterface, FailedImagesHaveRowsOfNanAndShiftNoOther) {
  const std::string absent = (folder / "absent.jpg").native();
  const std::vector<char> garbage{'n', 'o', ' ', 'i', 'm', 'a', 'g', 'e'};
  std::vector<float> rows;
  const RunPtr run =
      start({pixels(kWidth, kHeight, rgb_), file(absent), pixels(kWidth, kHeight, rgb_),
             encoded(garbage), pixels(kWidth, kHeight + 1, rgb_), encoded(bitmap_)},
            rows,
            {.batch_size = 2,
             .decode_threads = 0,
             .normalize = 1,
             .stop_at_failure = 0,
             .decode_memory = 0,
             .max_pixels = 0});
  finish(run);
  ASSERT_EQ(fovea_embed_failures(run.get()), 3U);
  const std::array<std::pair<std::size_t, std::string>, 3> expected{
      {{1, "cannot open"}, {3, "a text file, not an image"}, {4, "RGB pixels"}}};
  for (std::size_t which = 0; which < 3; ++which) {
    std::size_t index = 0;
    const char* reason = nullptr;
    ASSERT_EQ(fovea_embed_failure(run.get(), which, &index, &reason), FOVEA_OK);
    EXPECT_EQ(index, expected[which].first);
    EXPECT_NE(std::string(reason).find(expected[which].second), std::string::npos) << reason;
    for (const float value : row(rows, index)) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
  std::size_t index = 0;
  const char* reason = nullptr;
  EXPECT_EQ(fovea_embed_failure(run.get(), 3, &index, &reason), FOVEA_FAILED);
  EXPECT_FALSE(std::isnan(rows[0]));
  EXPECT_EQ(row(rows, 0), row(rows, 2));
  EXPECT_EQ(row(rows, 0), row(rows, 5));
}

TEST_F(CInterface, RefusesImagesOfMorePixelsThanAskedFor) {
  std::vector<float> rows;
  fovea_embed_options options = kDefaults;
  options.max_pixels = std::int64_t{kWidth} * kHeight - 1;
  const RunPtr run = start({encoded(bitmap_)}, rows, options);
  finish(run);
  ASSERT_EQ(fovea_embed_failures(run.get()), 1U);
  std::size_t index = 0;
  const char* reason = nullptr;
  ASSERT_EQ(fovea_embed_failure(run.get(), 0, &index, &reason), FOVEA_OK);
  EXPECT_NE(std::string(reason).find("more than the limit of"), std::string::npos) << reason;
  ++options.max_pixels;
  const RunPtr enough = start({encoded(bitmap_)}, rows, options);
  finish(enough);
  EXPECT_EQ(fovea_embed_failures(enough.get()), 0U);
}

TEST_F(CInterface, EndsAtTheFirstFailureWhenAskedTo) {
  constexpr std::size_t kImages = 1000;
  const std::vector<char> nothing;
  std::vector<fovea_image> images(kImages, pixels(kWidth, kHeight, rgb_));
  images[3] = encoded(nothing);
  std::vector<float> rows;
  const RunPtr run = start(images, rows,
                           {.batch_size = 2,
                            .decode_threads = 0,
                            .normalize = 1,
                            .stop_at_failure = 1,
                            .decode_memory = 0,
                            .max_pixels = 0});
  finish(run);
  ASSERT_EQ(fovea_embed_failures(run.get()), 1U);
  EXPECT_EQ(fovea_embed_done(run.get()), 4U);
  EXPECT_TRUE(std::isnan(rows.back()));
}

TEST_F(CInterface, StopsWhenToldOrFreed) {
  constexpr std::size_t kImages = 20'000;
  const std::vector<fovea_image> images(kImages, pixels(kWidth, kHeight, rgb_));
  std::vector<float> rows;
  RunPtr run = start(images, rows, kDefaults);
  std::int32_t ended = 1;
  ASSERT_EQ(fovea_embed_wait(run.get(), 0, &ended), FOVEA_OK);
  EXPECT_EQ(ended, 0);
  fovea_embed_stop(run.get());
  finish(run);
  EXPECT_LT(fovea_embed_done(run.get()), kImages);
  EXPECT_TRUE(std::isnan(rows.back()));
  run = start(images, rows, kDefaults);
  encoder_.reset();  // the run keeps what it needs
  run.reset();
  EXPECT_TRUE(std::isnan(rows.back()));
}

TEST_F(CInterface, NoImagesAreNoRows) {
  std::vector<float> rows;
  finish(start({}, rows, kDefaults));
}

TEST_F(CInterface, FeaturesAreThereOnceTheirRunHasEnded) {
  const auto features_of = [&](const std::vector<fovea_image>& images, RunPtr& run) {
    const fovea_features_options options{.type = FOVEA_FEATURES_F32,
                                         .batch_size = 0,
                                         .decode_threads = 0,
                                         .reserved = 0,
                                         .decode_memory = 0,
                                         .max_pixels = 0};
    fovea_features* features = nullptr;
    fovea_embedding* started = nullptr;
    EXPECT_EQ(fovea_features_start(encoder_.get(), images.data(), images.size(), "last", &options,
                                   &features, &started),
              FOVEA_OK);
    run.reset(started);
    return std::unique_ptr<fovea_features, decltype(&fovea_features_free)>(features,
                                                                           fovea_features_free);
  };
  const auto expect_none = [](const fovea_features* features) {
    std::array<std::int64_t, 3> shape{};
    void* managed = nullptr;
    EXPECT_EQ(fovea_features_shape(features, shape.data()), 0);
    EXPECT_EQ(fovea_features_data(features), nullptr);
    EXPECT_EQ(fovea_features_bytes(features), 0U);
    EXPECT_EQ(fovea_features_dlpack(features, &managed), FOVEA_FAILED);
    EXPECT_NE(std::string(fovea_last_error()).find("run has not ended"), std::string::npos);
    EXPECT_EQ(managed, nullptr);
    EXPECT_EQ(fovea_features_copy(features, shape.data(), 0), FOVEA_FAILED);
  };
  RunPtr run;
  const auto early = features_of(std::vector(20'000, pixels(kWidth, kHeight, rgb_)), run);
  expect_none(early.get());
  run.reset();
  expect_none(early.get());  // it was ended before its last image

  const auto whole = features_of({pixels(kWidth, kHeight, rgb_)}, run);
  finish(run);
  std::array<std::int64_t, 3> shape{};
  EXPECT_EQ(fovea_features_shape(whole.get(), shape.data()), 3);
  EXPECT_NE(fovea_features_data(whole.get()), nullptr);
  const std::vector<char> broken{'n', 'o'};
  const auto failed = features_of({encoded(broken)}, run);
  finish(run);
  expect_none(failed.get());
}

TEST_F(CInterface, WhatNoMemoryHoldsIsToldInWords) {
  const fovea_text endless{.data = "x", .size = std::numeric_limits<std::size_t>::max()};
  std::vector<float> rows(dimension_);
  const fovea_embed_texts_options options{};
  const fovea_image image = pixels(kWidth, kHeight, rgb_);
  const fovea_features_options features_options{};
  fovea_features* features = nullptr;
  fovea_embedding* run = nullptr;
  const auto is_told = [] {
    const std::string message = fovea_last_error();
    return message.starts_with("not enough memory");
  };
  EXPECT_EQ(fovea_embed_texts(encoder_.get(), &endless, 1, &options, rows.data()), FOVEA_FAILED);
  EXPECT_TRUE(is_told()) << fovea_last_error();
  EXPECT_EQ(fovea_features_start(encoder_.get(), &image, std::numeric_limits<std::size_t>::max(),
                                 "last", &features_options, &features, &run),
            FOVEA_FAILED);
  EXPECT_TRUE(is_told()) << fovea_last_error();
  EXPECT_EQ(run, nullptr);
  const fovea_image path{.kind = FOVEA_IMAGE_FILE,
                         .width = 0,
                         .height = 0,
                         .data = "x",
                         .size = std::numeric_limits<std::size_t>::max()};
  EXPECT_EQ(
      fovea_features_start(encoder_.get(), &path, 1, "last", &features_options, &features, &run),
      FOVEA_FAILED);
  EXPECT_TRUE(is_told()) << fovea_last_error();
}

TEST_F(CInterface, MessagesSayWhatIsWrong) {
  fovea_encoder* loaded = nullptr;
  EXPECT_EQ(fovea_encoder_load("/nowhere/at/all", "cpu", "fp32", 0, &loaded), FOVEA_FAILED);
  EXPECT_NE(std::string(fovea_last_error()).find("/nowhere/at/all"), std::string::npos);
  EXPECT_EQ(fovea_encoder_load(model().c_str(), "toaster", "fp32", 0, &loaded), FOVEA_FAILED);
  EXPECT_NE(std::string(fovea_last_error()).find("toaster"), std::string::npos);
  EXPECT_EQ(fovea_encoder_load(model().c_str(), "cpu", "fp12", 0, &loaded), FOVEA_FAILED);
  EXPECT_NE(std::string(fovea_last_error()).find("fp12"), std::string::npos);
  EXPECT_EQ(loaded, nullptr);
  const fovea_image unknown{.kind = 9, .width = 0, .height = 0, .data = nullptr, .size = 0};
  fovea_embedding* run = nullptr;
  std::vector<float> rows(dimension_);
  EXPECT_EQ(fovea_embed_start(encoder_.get(), &unknown, 1, &kDefaults, rows.data(), &run),
            FOVEA_FAILED);
  EXPECT_NE(std::string(fovea_last_error()).find("kind 9"), std::string::npos);
  const fovea_embed_options negative{.batch_size = -1,
                                     .decode_threads = 0,
                                     .normalize = 1,
                                     .stop_at_failure = 0,
                                     .decode_memory = 0,
                                     .max_pixels = 0};
  const RunPtr failing = start({pixels(kWidth, kHeight, rgb_)}, rows, negative);
  std::int32_t ended = 0;
  EXPECT_EQ(fovea_embed_wait(failing.get(), kWaitMilliseconds, &ended), FOVEA_FAILED);
  EXPECT_NE(std::string(fovea_last_error()).find("batch size -1"), std::string::npos);
}

}  // namespace
}  // namespace fovea::c::testing
