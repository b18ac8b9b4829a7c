// The whole encoder on the tiny model: an image's embedding depends on the image alone.
#include "model/encoder.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends.hpp"
#include "core/length.hpp"
#include "cpu/cpu_backend.hpp"
#include "files.hpp"
#include "fovea/encoder.hpp"
#include "fovea/model.hpp"
#include "model/checkpoint.hpp"
#include "ops/reference/reference_backend.hpp"
#include "quantize/observer.hpp"

namespace fovea::model {
namespace {

class EncoderTest : public testing::Test {
 protected:
  EncoderTest() {
    init_checkpoint({.preset = "tiny", .folder = folder_.path() / "m", .threads = 1});
    checkpoint_ = std::make_unique<Checkpoint>(folder_.path() / "m");
    const VisionConfig& vision = checkpoint_->config().vision;
    image_bytes_ = static_cast<std::size_t>(vision.patches() * vision.patch_elements());
    width_ = static_cast<std::size_t>(vision.hidden);
    patches_.resize(kImages * image_bytes_);
    std::minstd_rand random(3);
    std::ranges::generate(patches_, [&] { return static_cast<std::uint8_t>(random() >> 9); });
  }

  std::unique_ptr<Encoder> encoder(Precision precision, int threads) {
    return std::make_unique<Encoder>(*checkpoint_,
                                     make_backend({.precision = precision, .threads = threads}));
  }

  std::vector<float> encode(Encoder& encoder, std::size_t first, std::size_t images) const {
    std::vector<float> embeddings(images * width_, NAN);
    encoder.encode(std::span(patches_).subspan(first * image_bytes_, images * image_bytes_),
                   static_cast<std::int64_t>(images), embeddings);
    return embeddings;
  }

  static constexpr std::size_t kImages = 37;
  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::size_t image_bytes_ = 0;
  std::size_t width_ = 0;
  std::vector<std::uint8_t> patches_;
};

// Resumed jobs cut their batches elsewhere and must write the same bytes; and a second call on an
// encoder must not see anything of the first.
TEST_F(EncoderTest, RowsDoNotDependOnTheBatchTheThreadsOrEarlierCalls) {
  const auto whole = encode(*encoder(Precision::kFp32, 1), 0, kImages);
  for (const int threads : {1, 3, 4}) {
    const auto again = encoder(Precision::kFp32, threads);
    for (const std::size_t batch : {37, 1, 2, 5, 1, 37}) {
      for (std::size_t first = 0; first < kImages; first += batch) {
        const std::size_t images = std::min<std::size_t>(batch, kImages - first);
        const auto part = encode(*again, first, images);
        ASSERT_TRUE(std::equal(part.begin(), part.end(),
                               whole.begin() + static_cast<std::ptrdiff_t>(first * width_)))
            << threads << " threads, batches of " << batch << ", from " << first;
      }
    }
  }
}

// The reference normalises what qkv and fc1 read; observed, it leaves norms to operators of their
// own, since their results are what is observed. In float64 there is no difference.
TEST_F(EncoderTest, NormsWithinLinearLayersGiveTheSame) {
  constexpr ops::LinearProblem kNormed{.rows = 1, .in = 8, .out = 8, .norm = true};
  auto within = ops::reference::make_backend();
  EXPECT_TRUE(within->can_run(kNormed));
  quantize::Observations observations;
  auto apart = quantize::observe(ops::reference::make_backend(), {}, observations);
  EXPECT_FALSE(apart->can_run(kNormed));
  Encoder one(*checkpoint_, std::move(within));
  Encoder other(*checkpoint_, std::move(apart));
  const auto embeddings = encode(one, 0, 1);
  const auto expected = encode(other, 0, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(embeddings[i], expected[i], 1e-6F * std::abs(expected[i])) << i;
  }
}

// Calibration and users see the backend through it.
TEST_F(EncoderTest, ObservedBackendsSayWhatTheirsDoes) {
  quantize::Observations observations;
  const auto observed = quantize::observe(
      cpu::make_cpu_backend({.precision = Precision::kFp32, .threads = 1, .note = "a note"}), {},
      observations);
  EXPECT_EQ(observed->take_note(), "a note");
  EXPECT_EQ(observed->take_note(), "");
  EXPECT_EQ(observed->preferred_batch(), 32);
  EXPECT_EQ(observed->device_seconds(), 0.0);
}

// As jobs do, where rows would be NaN or have no direction.
TEST_F(EncoderTest, EmbeddingsThatAreNotFiniteAreRefused) {
  const auto folder = folder_.path() / "m";
  const EncoderOptions options{.device = "cpu", .precision = Precision::kFp32, .threads = 1};
  fovea::Encoder whole(folder.string(), options);
  const Preprocessing& want = whole.preprocessing();
  const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(want.height * want.width * 3));
  EXPECT_EQ(whole.embed_pixels(pixels).size(), width_);
  std::fstream weights(folder / "model.safetensors",
                       std::ios::in | std::ios::out | std::ios::binary);
  weights.seekp(-64, std::ios::end);
  weights << std::string(64, '\x7f');  // 3.4e38 each, which sums overflow with
  weights.close();
  fovea::Encoder broken(folder.string(), options);
  try {
    static_cast<void>(broken.embed_pixels(pixels));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "image 0: its embedding is not finite");
  }
}

// Threads that observe wait for each other's images; one that fails must not keep the others.
TEST_F(EncoderTest, ObservingEndsWhenAThreadFails) {
  quantize::Observations observations;
  const std::vector<float> row(width_);
  observations.add(ops::Place::kFc1, 0, {.first = 0},
                   {row.data(), DType::kF32, {1, checkpoint_->config().vision.hidden}});
  Encoder observed(*checkpoint_,
                   quantize::observe(make_backend({.precision = Precision::kFp32, .threads = 4}),
                                     {ops::Place::kFc1, ops::Place::kFc2}, observations));
  EXPECT_NE(error_of([&] { encode(observed, 0, 9); }).find("image 0 was observed twice"),
            std::string::npos);
}

TEST_F(EncoderTest, CountsItsTime) {
  const auto one = encoder(Precision::kFp32, 2);
  encode(*one, 0, 3);
  using ops::Place;
  for (const Place place : {Place::kPatchEmbed, Place::kLayerNorm, Place::kQkv, Place::kAttention,
                            Place::kOut, Place::kFc1, Place::kFc2, Place::kPool}) {
    EXPECT_GT(one->backend().profile()[place].calls, 0U) << to_string(place);
    EXPECT_GT(one->backend().profile()[place].seconds, 0) << to_string(place);
  }
  EXPECT_EQ(one->backend().profile()[Place::kOther].calls, 0U);
  one->reset_profile();
  EXPECT_EQ(one->backend().profile()[Place::kQkv].calls, 0U);
}

TEST_F(EncoderTest, RefusesBuffersOfTheWrongSize) {
  const auto one = encoder(Precision::kFp32, 1);
  std::vector<float> embeddings(width_);
  EXPECT_THROW(one->encode(std::span(patches_).first(image_bytes_ - 1), 1, embeddings), Error);
  EXPECT_THROW(one->encode(std::span(patches_).first(2 * image_bytes_), 2, embeddings), Error);
  EXPECT_NO_THROW(one->encode({}, 0, {}));
}

/// Images of a NaFlex model, each of another size.
class NaflexEncoderTest : public testing::Test {
 protected:
  NaflexEncoderTest() {
    init_checkpoint({.preset = "tiny-naflex", .folder = folder_.path() / "m", .threads = 1});
    checkpoint_ = std::make_unique<Checkpoint>(folder_.path() / "m");
    const VisionConfig& vision = checkpoint_->config().vision;
    width_ = static_cast<std::size_t>(vision.hidden);
    elements_ = static_cast<std::size_t>(vision.patch_elements());
    for (const PatchGrid& grid : grids_) {
      starts_.push_back(starts_.back() + static_cast<std::size_t>(grid.patches()));
    }
    patches_.resize(starts_.back() * elements_);
    std::minstd_rand random(3);
    std::ranges::generate(patches_, [&] { return static_cast<std::uint8_t>(random() >> 9); });
  }

  std::vector<float> encode(Encoder& encoder, std::size_t first, std::size_t images) const {
    std::vector<float> embeddings(images * width_, NAN);
    encoder.encode(
        std::span(patches_).subspan(starts_[first] * elements_,
                                    (starts_[first + images] - starts_[first]) * elements_),
        std::span(grids_).subspan(first, images), embeddings);
    return embeddings;
  }
  std::unique_ptr<Encoder> encoder(int threads) const {
    return std::make_unique<Encoder>(
        *checkpoint_, make_backend({.precision = Precision::kFp32, .threads = threads}));
  }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<PatchGrid> grids_{{8, 8}, {1, 1},  {6, 10}, {64, 1}, {1, 64}, {7, 9}, {3, 2},
                                {9, 7}, {1, 63}, {5, 12}, {8, 8},  {2, 2},  {4, 16}};
  std::vector<std::size_t> starts_{0};
  std::vector<std::uint8_t> patches_;
  std::size_t width_ = 0;
  std::size_t elements_ = 0;
};

TEST_F(NaflexEncoderTest, AgreesWithFloat64) {
  Encoder exact(*checkpoint_, ops::reference::make_backend());
  const auto expected = encode(exact, 0, grids_.size());
  const auto found = encode(*encoder(2), 0, grids_.size());
  for (std::size_t image = 0; image < grids_.size(); ++image) {
    const auto row = std::span(expected).subspan(image * width_, width_);
    const double length = std::sqrt(squared_length(row));
    for (std::size_t i = 0; i < width_; ++i) {
      ASSERT_NEAR(found[image * width_ + i], row[i], 2e-5 * length) << image;
    }
  }
}

TEST_F(NaflexEncoderTest, RowsDoNotDependOnTheBatchOrTheThreads) {
  const auto whole = encode(*encoder(1), 0, grids_.size());
  for (const int threads : {1, 2, 3, 8}) {
    const auto again = encoder(threads);
    for (const std::size_t batch : {13, 1, 2, 5}) {
      for (std::size_t first = 0; first < grids_.size(); first += batch) {
        const std::size_t images = std::min(batch, grids_.size() - first);
        const auto part = encode(*again, first, images);
        ASSERT_TRUE(std::equal(part.begin(), part.end(),
                               whole.begin() + static_cast<std::ptrdiff_t>(first * width_)))
            << threads << " threads, batches of " << batch << ", from " << first;
      }
    }
  }
}

TEST_F(NaflexEncoderTest, SizesMustBeThoseOfThePatches) {
  const auto one = encoder(1);
  std::vector<float> row(width_);
  const std::span all(patches_);
  const auto refusal = [&](std::span<const std::uint8_t> patches, PatchGrid grid) {
    return error_of([&] { one->encode(patches, std::vector{grid}, row); });
  };
  EXPECT_NO_THROW(one->encode(all.first(64 * elements_), std::vector<PatchGrid>{{8, 8}}, row));
  EXPECT_NO_THROW(one->encode(all.first(elements_), std::vector<PatchGrid>{{1, 1}}, row));
  EXPECT_TRUE(contains(refusal(all.first(63 * elements_), {8, 8}), "bytes of patches"));
  EXPECT_TRUE(contains(refusal(all.first(65 * elements_), {5, 13}), "expected 1 to 64"));
  EXPECT_TRUE(contains(error_of([&] { one->encode(all.first(elements_), 1, row); }),
                       "needs a size in patches"));
  EXPECT_NO_THROW(one->encode({}, std::vector<PatchGrid>(), {}));
}

// The public encoder takes resized pixels of any size in whole patches.
TEST_F(NaflexEncoderTest, PublicEncoderTakesPixelsOfAnySize) {
  fovea::Encoder open((folder_.path() / "m").string(),
                      {.device = "cpu", .precision = Precision::kFp32, .threads = 1});
  EXPECT_TRUE(open.preprocessing().keeps_proportions());
  std::vector<std::uint8_t> pixels(std::size_t{2} * 32 * 48 * 3);
  std::minstd_rand random(5);
  std::ranges::generate(pixels, [&] { return static_cast<std::uint8_t>(random() >> 9); });
  const auto both = open.embed_pixels(pixels, 32, 48);
  ASSERT_EQ(both.size(), 2 * width_);
  const auto second = open.embed_pixels(std::span(pixels).last(32 * 48 * 3), 32, 48);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), both.begin() + std::ssize(second)));
  const auto turned = open.embed_pixels(std::span(pixels).last(32 * 48 * 3), 48, 32);
  EXPECT_FALSE(std::ranges::equal(second, turned));
  const auto refusal = [&](int height, int width) {
    return error_of([&] { (void)open.embed_pixels(pixels, height, width); });
  };
  EXPECT_TRUE(contains(refusal(32, 40), "1 to 64 patches of 16 x 16"));
  EXPECT_TRUE(contains(refusal(16, 1040), "1 to 64 patches"));
  EXPECT_TRUE(contains(refusal(16, 80), "whole number of images"));
  EXPECT_TRUE(contains(error_of([&] { (void)open.embed_pixels(pixels); }), "pass the height"));
}

TEST(BackendsTest, UnknownDevicesAreRefused) {
  EXPECT_THROW(static_cast<void>(make_backend({.device = "cuda"})), Error);
  EXPECT_THROW(static_cast<void>(make_backend({.threads = -1})), Error);
}

}  // namespace
}  // namespace fovea::model
