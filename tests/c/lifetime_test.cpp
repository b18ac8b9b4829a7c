// The end of a process amid work, forked children, and arguments that are not there.
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fovea/c/encoder.h"
#include "fovea/c/kernels.h"
#include "fovea/c/operators.h"
#include "fovea/model.hpp"

namespace fovea::c::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kLifetimeWaitMs = 60'000;
constexpr fovea_embed_options kOptions{.batch_size = 0,
                                       .decode_threads = 0,
                                       .normalize = 1,
                                       .stop_at_failure = 0,
                                       .decode_memory = 0,
                                       .max_pixels = 0};

bool said(std::string_view what) {
  return std::string_view(fovea_last_error()).find(what) != std::string_view::npos;
}

class Lifetime : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own
    std::string pattern = (fs::temp_directory_path() / "fovea-lifetime-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    model_ = (folder_ / "model").native();
    init_checkpoint({.preset = "tiny", .folder = model_, .threads = 1});
    ASSERT_EQ(fovea_encoder_load(model_.c_str(), "cpu", "fp32", 2, &encoder_), FOVEA_OK);
    dimension_ = static_cast<std::size_t>(fovea_encoder_dimension(encoder_));
  }
  void TearDown() override {
    fovea_encoder_free(encoder_);
    fs::remove_all(folder_);
  }

  fovea_embedding* start(std::size_t count) {
    images_.assign(count, {.kind = FOVEA_IMAGE_PIXELS,
                           .width = 100,
                           .height = 100,
                           .data = pixels_.data(),
                           .size = pixels_.size()});
    rows_.assign(count * dimension_, 0.0F);
    fovea_embedding* run = nullptr;
    EXPECT_EQ(fovea_embed_start(encoder_, images_.data(), count, &kOptions, rows_.data(), &run),
              FOVEA_OK)
        << fovea_last_error();
    return run;
  }

  /// The child's answer to `body`; it is killed when it hangs.
  static int in_a_fork(const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::_exit(body() ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return status;
  }

  fs::path folder_;
  std::string model_;
  fovea_encoder* encoder_ = nullptr;
  std::size_t dimension_ = 0;
  std::vector<std::uint8_t> pixels_ = std::vector<std::uint8_t>(100 * 100 * 3, 7);
  std::vector<fovea_image> images_;
  std::vector<float> rows_;
};

// What a child can do with its parent's encoder, which has no threads there.
TEST_F(Lifetime, ForkedChildrenAreTold) {
  fovea_embedding* const run = start(20'000);
  EXPECT_EQ(in_a_fork([&] {
              fovea_embedding* another = nullptr;
              const fovea_status begun =
                  fovea_embed_start(encoder_, images_.data(), 1, &kOptions, rows_.data(), &another);
              return begun == FOVEA_FAILED && said("belongs to the parent of this process");
            }),
            0);
  EXPECT_EQ(in_a_fork([&] {
              std::int32_t ended = 0;
              return fovea_embed_wait(run, kLifetimeWaitMs, &ended) == FOVEA_FAILED &&
                     said("belongs to the parent of this process");
            }),
            0);
  EXPECT_EQ(in_a_fork([&] {
              fovea_embed_free(run);
              fovea_encoder_free(encoder_);
              return fovea_shut_down(kLifetimeWaitMs) == FOVEA_OK;
            }),
            0);
  fovea_embed_free(run);
}

// A child may have an encoder of its own.
TEST_F(Lifetime, ForkedChildrenLoadTheirOwn) {
  EXPECT_EQ(in_a_fork([&] {
              fovea_encoder* encoder = nullptr;
              if (fovea_encoder_load(model_.c_str(), "cpu", "fp32", 1, &encoder) != FOVEA_OK) {
                return false;
              }
              fovea_encoder_free(encoder);
              return true;
            }),
            0);
}

TEST_F(Lifetime, ShuttingDownEndsRuns) {
  const auto leave = [&] {
    fovea_embedding* const run = start(200'000);
    const fovea_status ended_all = fovea_shut_down(kLifetimeWaitMs);
    std::int32_t ended = 0;
    const fovea_status waited = fovea_embed_wait(run, 0, &ended);
    bool right = ended_all == FOVEA_OK && waited == FOVEA_FAILED && said("the process is ending") &&
                 std::isnan(rows_.back());
    fovea_embedding* another = nullptr;
    right = right && fovea_embed_start(encoder_, images_.data(), 1, &kOptions, rows_.data(),
                                       &another) == FOVEA_FAILED;
    fovea_encoder* loaded = nullptr;
    right = right && fovea_encoder_load(model_.c_str(), "cpu", "fp32", 1, &loaded) == FOVEA_FAILED;
    right = right && fovea_shut_down(0) == FOVEA_OK;  // again
    fovea_embed_free(run);
    fovea_encoder_free(encoder_);
    std::exit(right ? 0 : 1);
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(0), "");
}

TEST_F(Lifetime, ShuttingDownWaitsForOperators) {
  const auto leave = [] {
    constexpr std::int64_t kSize = 256;
    static std::vector<float> x(kSize * kSize, 1.0F);
    static std::atomic<int> calls = 0;
    static std::atomic<bool> refused = false;
    std::thread([] {
      std::vector<float> output(x.size());
      const fovea_linear_args args{.x = x.data(),
                                   .weight = x.data(),
                                   .bias = nullptr,
                                   .output = output.data(),
                                   .rows = kSize,
                                   .in = kSize,
                                   .out = kSize,
                                   .type = FOVEA_F32,
                                   .epilogue = FOVEA_EPILOGUE_NONE};
      const fovea_place place{.device = -1, .threads = 1, .stream = nullptr};
      while (fovea_linear(&args, &place) == FOVEA_OK) {
        ++calls;
      }
      refused = said("the process is ending");
    }).detach();
    while (calls == 0) {
      std::this_thread::yield();
    }
    const bool waited = fovea_shut_down(kLifetimeWaitMs) == FOVEA_OK;
    while (!refused) {
      std::this_thread::yield();
    }
    std::exit(waited ? 0 : 1);
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(0), "");
}

TEST_F(Lifetime, ArgumentsThatAreNotThereAreErrors) {
  fovea_encoder* loaded = nullptr;
  const char* const model = model_.c_str();
  EXPECT_EQ(fovea_encoder_load(nullptr, "cpu", "fp32", 1, &loaded), FOVEA_FAILED);
  EXPECT_TRUE(said("model is NULL"));
  EXPECT_EQ(fovea_encoder_load(model, nullptr, "fp32", 1, &loaded), FOVEA_FAILED);
  EXPECT_TRUE(said("device is NULL"));
  EXPECT_EQ(fovea_encoder_load(model, "cpu", nullptr, 1, &loaded), FOVEA_FAILED);
  EXPECT_TRUE(said("precision is NULL"));
  EXPECT_EQ(fovea_encoder_load(model, "cpu", "fp32", 1, nullptr), FOVEA_FAILED);
  EXPECT_TRUE(said("encoder is NULL"));

  const fovea_image image{.kind = FOVEA_IMAGE_PIXELS,
                          .width = 100,
                          .height = 100,
                          .data = pixels_.data(),
                          .size = pixels_.size()};
  std::vector<float> rows(dimension_);
  fovea_embedding* run = nullptr;
  const auto refuses = [&](fovea_encoder* encoder, const fovea_image* images, std::size_t count,
                           const fovea_embed_options* options, float* output,
                           fovea_embedding** result, std::string_view what) {
    EXPECT_EQ(fovea_embed_start(encoder, images, count, options, output, result), FOVEA_FAILED)
        << what;
    EXPECT_TRUE(said(what)) << fovea_last_error();
  };
  refuses(nullptr, &image, 1, &kOptions, rows.data(), &run, "encoder is NULL");
  refuses(encoder_, nullptr, 1, &kOptions, rows.data(), &run, "images is NULL");
  refuses(encoder_, &image, 1, nullptr, rows.data(), &run, "options is NULL");
  refuses(encoder_, &image, 1, &kOptions, nullptr, &run, "rows is NULL");
  refuses(encoder_, &image, 1, &kOptions, rows.data(), nullptr, "run is NULL");
  refuses(encoder_, &image, SIZE_MAX, &kOptions, rows.data(), &run, "not enough memory for");
  const fovea_image empty{
      .kind = FOVEA_IMAGE_ENCODED, .width = 0, .height = 0, .data = nullptr, .size = 10};
  refuses(encoder_, &empty, 1, &kOptions, rows.data(), &run, "the data of image 0 is NULL");

  std::int32_t ended = 0;
  EXPECT_EQ(fovea_embed_wait(nullptr, 0, &ended), FOVEA_FAILED);
  run = start(1);
  EXPECT_EQ(fovea_embed_wait(run, kLifetimeWaitMs, nullptr), FOVEA_FAILED);
  EXPECT_TRUE(said("ended is NULL"));
  std::size_t index = 0;
  const char* reason = nullptr;
  EXPECT_EQ(fovea_embed_failure(nullptr, 0, &index, &reason), FOVEA_FAILED);
  EXPECT_EQ(fovea_embed_failure(run, 0, nullptr, &reason), FOVEA_FAILED);
  EXPECT_EQ(fovea_embed_failure(run, 0, &index, nullptr), FOVEA_FAILED);
  EXPECT_TRUE(said("reason is NULL"));
  fovea_embed_free(run);
  fovea_embed_free(nullptr);
  fovea_encoder_free(nullptr);

  EXPECT_EQ(fovea_kernel_get(0, nullptr), FOVEA_FAILED);
  EXPECT_TRUE(said("kernel is NULL"));
  const fovea_place place{.device = -1, .threads = 1, .stream = nullptr};
  const fovea_attention_args attention{};
  const fovea_linear_args linear{};
  EXPECT_EQ(fovea_attention(nullptr, &place), FOVEA_FAILED);
  EXPECT_TRUE(said("args is NULL"));
  EXPECT_EQ(fovea_linear(&linear, nullptr), FOVEA_FAILED);
  EXPECT_TRUE(said("place is NULL"));
  EXPECT_EQ(fovea_patch_embed(nullptr, &place), FOVEA_FAILED);
  EXPECT_EQ(fovea_layer_norm(nullptr, &place), FOVEA_FAILED);
  EXPECT_EQ(fovea_attention_choose(&attention, &place, nullptr), FOVEA_FAILED);
  EXPECT_TRUE(said("choice is NULL"));
}

}  // namespace
}  // namespace fovea::c::testing
