// How the GPU backend carries batches through: slices, memory that runs out, graphs, and the order
// of results, on a device whose streams lag behind as much as they may.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"
#include "gpu/gpu_backend.hpp"
#include "gpu/queued_device.hpp"

namespace fovea::gpu {
namespace {

constexpr std::int64_t kWidth = 8;  // floats of an image
constexpr float kWeight = 2;
constexpr float kBias = 3;

/// Pixels that are floats, each another.
std::vector<float> inputs(std::int64_t images, float first) {
  std::vector<float> values(static_cast<std::size_t>(images * kWidth));
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// What the network below makes of them.
std::vector<float> expected(const std::vector<float>& values) {
  std::vector<float> results;
  for (const float value : values) {
    results.push_back((value * kWeight + kBias) * kWeight + kBias);
  }
  return results;
}

class BackendRun : public testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
  }
  void TearDown() override {
    norm_.reset();
    backend_.reset();
    EXPECT_TRUE(ledger_.memory.empty());
    EXPECT_EQ(ledger_.pinned, 0);
    EXPECT_EQ(ledger_.holds, 0);
    EXPECT_EQ(ledger_.unheld, 0) << "calls beside the caller's own context";
  }

  void open(std::int64_t slice_images) {
    backend_ = make_gpu_backend(std::make_unique<QueuedDevice>(ledger_),
                                {.threads = 2, .slice_images = slice_images});
    const std::vector<float> weight(kWidth, kWeight);
    const std::vector<float> bias(kWidth, kBias);
    norm_ = backend_->prepare(ops::LayerNormWeights{.weight = weight, .bias = bias});
  }

  /// Two layers, by way of the workspace.
  void network(ops::Executor& executor, const ops::Slice& slice) {
    calls_.push_back(slice.images);
    if (std::ssize(calls_) == fail_at_) {
      throw std::runtime_error("a layer failed");
    }
    const Shape shape{slice.images, kWidth};
    const ops::LayerNormProblem problem{.rows = slice.images, .width = kWidth};
    const TensorView between{slice.workspace, DType::kF32, shape};
    executor.run(ops::LayerNormCall{problem, *norm_, {slice.input, DType::kF32, shape}, between});
    if (std::ssize(calls_) == fail_between_) {
      throw std::runtime_error("a layer failed");
    }
    executor.run(ops::LayerNormCall{problem, *norm_, between, {slice.output, DType::kF32, shape}});
  }

  void run(std::span<const std::uint8_t> input, std::span<float> output) {
    calls_.clear();
    backend_->run(
        {.images = std::ssize(output) / kWidth,
         .input = input,
         .output = std::as_writable_bytes(output),
         .workspace_bytes_per_image = kWidth * sizeof(float)},
        [this](ops::Executor& executor, const ops::Slice& slice) { network(executor, slice); });
  }
  std::vector<float> run(const std::vector<float>& values) {
    std::vector<float> output(values.size(), -1);
    run({reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(float)},
        output);
    return output;
  }

  Ledger ledger_;
  std::unique_ptr<ops::Backend> backend_;
  ops::PreparedPtr norm_;
  std::vector<std::int64_t> calls_;  // of the network, by images, since the last run began
  std::int64_t fail_at_ = -1;
  std::int64_t fail_between_ = -1;
};

TEST_F(BackendRun, HasTheKernelsOfEveryPrecision) {
  for (const Precision precision : {Precision::kBf16, Precision::kInt8, Precision::kFp8}) {
    EXPECT_NO_THROW((void)make_gpu_backend(std::make_unique<QueuedDevice>(ledger_),
                                           {.precision = precision, .threads = 2}));
  }
}

TEST_F(BackendRun, ResultsOfEverySliceComeToTheirPlace) {
  open(64);
  for (const std::int64_t images : {1, 64, 65, 500, 1000, 1, 499, 1000, 1000, 64}) {
    const std::vector<float> values = inputs(images, static_cast<float>(images));
    ASSERT_EQ(run(values), expected(values)) << images;
    EXPECT_LE(calls_.empty() ? 0 : std::ranges::max(calls_), 64) << images;
  }
  EXPECT_GT(backend_->device_seconds(), 0);
}

TEST_F(BackendRun, PageLockedInputIsTakenAsItIs) {
  open(64);
  const std::vector<float> values = inputs(300, 5);
  HostBuffer pixels = backend_->allocate_input(values.size() * sizeof(float));
  std::memcpy(pixels.data(), values.data(), values.size() * sizeof(float));
  for (int round = 0; round < 3; ++round) {
    std::vector<float> output(values.size(), -1);
    run(std::as_const(pixels).span(), output);
    ASSERT_EQ(output, expected(values));
  }
  pixels = HostBuffer();
}

// Directly, which loads the kernels; captured; and from then on without the network.
TEST_F(BackendRun, TheThirdBatchOfASizeIsAGraph) {
  open(64);
  const auto check = [&](std::int64_t images, float first, std::size_t calls) {
    const std::vector<float> values = inputs(images, first);
    ASSERT_EQ(run(values), expected(values)) << images;
    EXPECT_EQ(calls_.size(), calls) << images << " images";
  };
  check(40, 1, 2);  // to measure, and to run
  EXPECT_EQ(ledger_.captures, 0);
  check(40, 2, 1);
  EXPECT_EQ(ledger_.captures, 1);
  EXPECT_EQ(ledger_.graph_launches, 1);
  check(40, 3, 0);
  check(40, 4, 0);
  EXPECT_EQ(ledger_.captures, 1);
  EXPECT_EQ(ledger_.graph_launches, 3);
  check(20, 5, 2);  // a size of its own, in the same memory
  check(20, 6, 1);
  check(20, 7, 0);
  check(40, 8, 1);  // the scratch is measured again, the graph is still there
  // Larger slices are other memory: what was captured points to what is gone.
  const int launches = ledger_.graph_launches;
  check(64, 9, 2);
  check(40, 10, 2);
  EXPECT_EQ(ledger_.graph_launches, launches);
}

// Results of one network are never another's, though both have slices of the same size in the same
// memory, and both are graphs in the end.
TEST_F(BackendRun, NetworksHaveGraphsOfTheirOwn) {
  open(64);
  const auto run_once = [&](const std::vector<float>& values) {
    std::vector<float> output(values.size(), -1);
    backend_->run({.images = std::ssize(values) / kWidth,
                   .input = {reinterpret_cast<const std::uint8_t*>(values.data()),
                             values.size() * sizeof(float)},
                   .output = std::as_writable_bytes(std::span(output)),
                   .workspace_bytes_per_image = kWidth * sizeof(float),
                   .network = {.layers = 1}},
                  [&](ops::Executor& executor, const ops::Slice& slice) {
                    const Shape shape{slice.images, kWidth};
                    executor.run(ops::LayerNormCall{{.rows = slice.images, .width = kWidth},
                                                    *norm_,
                                                    {slice.input, DType::kF32, shape},
                                                    {slice.output, DType::kF32, shape}});
                  });
    return output;
  };
  for (int round = 0; round < 5; ++round) {
    const std::vector<float> values = inputs(40, static_cast<float>(round));
    ASSERT_EQ(run(values), expected(values)) << round;
    std::vector<float> once;
    for (const float value : values) {
      once.push_back(value * kWeight + kBias);
    }
    ASSERT_EQ(run_once(values), once) << round;
  }
  EXPECT_EQ(ledger_.captures, 2);
}

// Several slices, then fewer and fewer images: directly, captured, and replayed, each to its place.
TEST_F(BackendRun, ResultsMayStayOnTheDevice) {
  open(64);
  std::shared_ptr<ops::OutputMemory> kept;
  for (const std::int64_t images : {200, 40, 40, 40, 200}) {
    const std::vector<float> values = inputs(images, static_cast<float>(images));
    const std::size_t bytes = values.size() * sizeof(float);
    const std::shared_ptr<ops::OutputMemory> memory = backend_->allocate_output(2 * bytes);
    ASSERT_EQ(memory->device(), 0);
    calls_.clear();
    std::int64_t computed = 0;
    backend_->run(
        {.images = images,
         .input = {reinterpret_cast<const std::uint8_t*>(values.data()), bytes},
         .output = memory->bytes().first(bytes),
         .output_stays = true,
         .workspace_bytes_per_image = kWidth * sizeof(float),
         .on_computed = [&](std::int64_t more) { computed += more; }},
        [this](ops::Executor& executor, const ops::Slice& slice) { network(executor, slice); });
    EXPECT_EQ(computed, images);
    std::vector<float> output(values.size(), -1);
    memory->copy_to(std::as_writable_bytes(std::span(output)));
    ASSERT_EQ(output, expected(values)) << images;
    std::vector<std::byte> too_much(2 * bytes + 1);
    EXPECT_THROW(memory->copy_to(too_much), Error);
    kept = memory;
  }
  // It may go after the backend, whose device it keeps.
  norm_.reset();
  backend_.reset();
  EXPECT_FALSE(ledger_.memory.empty());
  kept.reset();
  EXPECT_TRUE(ledger_.memory.empty());
}

// Slices of large results have fewer images.
TEST_F(BackendRun, LargeResultsMakeSmallSlices) {
  open(0);
  constexpr std::int64_t kImages = 6;
  constexpr std::size_t kEach = std::size_t{48} << 20;
  const std::vector<float> values = inputs(kImages, 0);
  const std::shared_ptr<ops::OutputMemory> memory = backend_->allocate_output(kImages * kEach);
  std::int64_t most = 0;
  backend_->run({.images = kImages,
                 .input = {reinterpret_cast<const std::uint8_t*>(values.data()),
                           values.size() * sizeof(float)},
                 .output = memory->bytes(),
                 .output_stays = true,
                 .workspace_bytes_per_image = kWidth * sizeof(float)},
                [&](ops::Executor& /*executor*/, const ops::Slice& slice) {
                  most = std::max(most, slice.images);
                });
  EXPECT_EQ(most, 2);
}

// The network here takes as many rows of a slice as it has images, from its first row on.
TEST_F(BackendRun, ImagesOfDifferentSizesLieOneAfterTheOther) {
  constexpr std::int64_t kMost = 4;  // images of a slice, and rows of an image
  open(kMost);
  const std::vector<PatchGrid> grids{{1, 2}, {3, 1}, {1, 1}, {2, 2}, {1, 3}, {2, 1}, {1, 1}};
  const std::vector<std::int32_t> starts{0, 2, 5, 6, 10, 13, 15, 16};
  const std::int64_t images = std::ssize(grids);
  const std::vector<std::int64_t> slices = plan_slices(images, kMost);
  ASSERT_GT(slices.size(), 1U);
  for (int round = 0; round < 4; ++round) {  // the third is replayed from graphs
    const std::vector<float> values = inputs(starts.back(), static_cast<float>(round));
    std::vector<float> output(static_cast<std::size_t>(images * kWidth), -1);
    std::vector<ops::Slice> seen;
    backend_->run({.images = images,
                   .tokens = kMost,
                   .grids = grids,
                   .input = {reinterpret_cast<const std::uint8_t*>(values.data()),
                             values.size() * sizeof(float)},
                   .output = std::as_writable_bytes(std::span(output)),
                   .workspace_bytes_per_image = kMost * kWidth * sizeof(float)},
                  [&](ops::Executor& executor, const ops::Slice& slice) {
                    seen.push_back(slice);
                    const Shape shape{slice.images, kWidth};
                    executor.run(ops::LayerNormCall{{.rows = slice.images, .width = kWidth},
                                                    *norm_,
                                                    {slice.input, DType::kF32, shape},
                                                    {slice.output, DType::kF32, shape}});
                  });
    std::int64_t first = 0;
    for (const std::int64_t count : slices) {
      for (std::int64_t i = 0; i < count * kWidth; ++i) {
        const std::int64_t from = starts[static_cast<std::size_t>(first)] * kWidth + i;
        ASSERT_EQ(output[static_cast<std::size_t>(first * kWidth + i)],
                  values[static_cast<std::size_t>(from)] * kWeight + kBias)
            << "round " << round << ", slice from image " << first;
      }
      first += count;
    }
    if (round > 0) {
      continue;
    }
    // One call measures, as if all were as large as they can be; the others are the slices.
    ASSERT_EQ(seen.size(), slices.size() + 1);
    EXPECT_EQ(seen.front().shapes.rows, seen.front().images * kMost);
    const ops::Slice& last = seen.back();
    const std::size_t begin = grids.size() - static_cast<std::size_t>(last.images);
    const auto* const found = pointer<const std::int32_t>(last.shapes.starts);
    const auto* const sizes = pointer<const std::int32_t>(last.shapes.grids);
    for (std::size_t i = 0; i < static_cast<std::size_t>(last.images); ++i) {
      EXPECT_EQ(found[i], starts[begin + i] - starts[begin]);
      EXPECT_EQ(sizes[2 * i], grids[begin + i].height);
      EXPECT_EQ(sizes[2 * i + 1], grids[begin + i].width);
    }
    EXPECT_EQ(last.shapes.rows, starts.back() - starts[begin]);
    EXPECT_EQ(last.rows(kMost), last.shapes.rows);
  }
}

TEST_F(BackendRun, SlicesAreHalvedOnceWhenMemoryRunsOut) {
  open(64);
  const std::size_t weights = ledger_.bytes;
  // An image takes its input, its output twice over (two slots), and the workspace.
  const std::size_t image = (2 + 2 + 1) * kWidth * sizeof(float);
  ledger_.max_bytes = weights + 40 * image;
  const std::vector<float> values = inputs(200, 1);
  EXPECT_EQ(run(values), expected(values));
  EXPECT_LE(std::ranges::max(std::span(calls_).subspan(1)), 64);
  const std::string note = backend_->take_note();
  EXPECT_NE(note.find("going on with 32 images at a time instead of 64"), std::string::npos)
      << note;
  EXPECT_EQ(backend_->take_note(), "");
  EXPECT_EQ(run(values), expected(values));
  EXPECT_LE(calls_.empty() ? 0 : std::ranges::max(calls_), 32);
  EXPECT_EQ(backend_->take_note(), "");
}

TEST_F(BackendRun, GivesUpWhenHalfIsTooMuchAsWell) {
  open(64);
  ledger_.max_bytes = ledger_.bytes + 100;
  const std::vector<float> values = inputs(200, 1);
  try {
    (void)run(values);
    ADD_FAILURE() << "it ran";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("32 images at a time are too many even so"), std::string::npos)
        << message;
    EXPECT_NE(message.find("--device cpu"), std::string::npos) << message;
  }
  ledger_.max_bytes = std::size_t{1} << 30;
  EXPECT_EQ(run(values), expected(values));
}

TEST_F(BackendRun, AnErrorInTheMiddleLeavesTheNextBatchWhole) {
  open(64);
  const std::vector<float> values = inputs(500, 1);
  fail_at_ = 4;
  std::vector<float> output(values.size(), -1);
  const std::span<const std::uint8_t> pixels(reinterpret_cast<const std::uint8_t*>(values.data()),
                                             values.size() * sizeof(float));
  EXPECT_THROW(run(pixels, output), std::runtime_error);
  for (const std::shared_ptr<Queue>& queue : ledger_.queues) {
    EXPECT_EQ(queue->done, queue->work.size()) << "the caller's memory may still be read";
  }
  fail_at_ = -1;
  const std::vector<float> left = output;
  const std::vector<float> others = inputs(500, 7);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(run(others), expected(others)) << round;
  }
  EXPECT_EQ(output, left) << "results of the failed batch came later";
}

// A stream that is left capturing would take every batch after that for a part of the graph.
TEST_F(BackendRun, AnErrorWhileAGraphIsCapturedEndsTheCapture) {
  open(64);
  const std::vector<float> values = inputs(30, 1);
  EXPECT_EQ(run(values), expected(values));
  fail_between_ = 1;
  EXPECT_THROW((void)run(values), std::runtime_error);
  EXPECT_EQ(ledger_.captures, 1);
  fail_between_ = -1;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(run(values), expected(values)) << round;
  }
}

}  // namespace
}  // namespace fovea::gpu
