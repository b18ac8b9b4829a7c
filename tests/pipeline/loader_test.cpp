// Batches come in input order, whole, and in bounded number.
#include "pipeline/loader.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "pipeline/prepare.hpp"
#include "support.hpp"

namespace fovea::pipeline::testing {
namespace {

const LoaderOptions kOptions{.threads = 4,
                             .batch_size = 7,
                             .image_bytes = kImageBytes,
                             .row_bytes = kDimension * sizeof(float)};

// As number_prepare, after a random delay.
std::function<Prepare()> delayed_prepare() {
  return []() -> Prepare {
    auto random = std::make_shared<std::mt19937>(std::random_device{}());
    const Prepare prepare = number_prepare()();
    return [random, prepare](Item& item, std::span<std::uint8_t> pixels, Slot& slot,
                             const Limits& limits) {
      std::this_thread::sleep_for(std::chrono::microseconds((*random)() % 500));
      prepare(item, pixels, slot, limits);
    };
  };
}

TEST(Loader, KeepsInputOrderUnderRandomDelays) {
  constexpr std::uint64_t kInputs = 500;
  InputStream inputs(std::make_unique<CountingSource>(kInputs), 0, 1);
  Loader loader(kOptions, inputs);
  loader.start(delayed_prepare());
  std::uint64_t expected = 0;
  while (Batch* batch = loader.next()) {
    EXPECT_EQ(batch->count, std::min<std::uint64_t>(kOptions.batch_size, kInputs - expected));
    batch->compact(kImageBytes);
    std::size_t row = 0;
    for (std::size_t index = 0; index < batch->count; ++index, ++expected) {
      const Slot& slot = batch->slots[index];
      EXPECT_EQ(slot.name, item_name(expected));
      ASSERT_EQ(slot.failed(), damaged(expected));
      if (!slot.failed()) {
        std::uint64_t number = 0;
        std::memcpy(&number, batch->pixels.data() + row++ * kImageBytes, sizeof(number));
        EXPECT_EQ(number, expected);
        EXPECT_EQ(slot.width, static_cast<int>(expected % 1000) + 1);
      }
    }
    EXPECT_EQ(batch->rows, row);
    loader.recycle(*batch);
  }
  EXPECT_EQ(expected, kInputs);
  EXPECT_GT(loader.busy_seconds(), 0);
}

TEST(Loader, PacksImagesOfDifferentSizesWithoutGaps) {
  constexpr std::uint64_t kInputs = 100;
  constexpr std::size_t kMost = 9;  // bytes of an image
  InputStream inputs(std::make_unique<CountingSource>(kInputs), 0, 1);
  Loader loader({.threads = 4, .batch_size = 7, .image_bytes = kMost}, inputs);
  const auto side = [](std::uint64_t number) { return static_cast<int>(number % 3) + 1; };
  loader.start([&]() -> Prepare {
    return [&](Item& item, std::span<std::uint8_t> pixels, Slot& slot, const Limits& /*limits*/) {
      if (damaged(item.number)) {
        throw Error("damaged on purpose");
      }
      slot.grid = {.height = side(item.number), .width = 3};
      slot.bytes = static_cast<std::size_t>(slot.grid.patches());
      std::ranges::fill(pixels, std::uint8_t{255});
      std::ranges::fill(pixels.first(slot.bytes), static_cast<std::uint8_t>(item.number));
    };
  });
  std::uint64_t number = 0;
  while (Batch* batch = loader.next()) {
    const std::uint64_t first = number;
    number += batch->count;
    batch->compact(kMost);
    std::vector<std::uint8_t> expected;
    std::vector<PatchGrid> grids;
    for (std::uint64_t i = first; i < number; ++i) {
      if (!damaged(i)) {
        grids.push_back({.height = side(i), .width = 3});
        expected.insert(expected.end(), static_cast<std::size_t>(grids.back().patches()),
                        static_cast<std::uint8_t>(i));
      }
    }
    EXPECT_TRUE(std::ranges::equal(batch->packed(), expected));
    EXPECT_EQ(batch->grids, grids);
    EXPECT_EQ(batch->rows, grids.size());
    loader.recycle(*batch);
  }
  EXPECT_EQ(number, kInputs);
}

TEST(Loader, TakesNoMoreInputsThanItsBatchesHold) {
  auto source = std::make_unique<CountingSource>(1'000'000);
  const CountingSource& counter = *source;
  InputStream inputs(std::move(source), 0, 1);
  Loader loader(kOptions, inputs);
  loader.start(number_prepare());
  Batch* batch = loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  loader.stop();
  EXPECT_EQ(loader.next(), nullptr);
  ASSERT_NE(batch, nullptr);
  // Read after the workers are at rest; each may hold one more input that found no place.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(counter.taken, kOptions.batches * kOptions.batch_size + 4);
}

TEST(Loader, EndsInTheMiddleWithoutWaitingForTheConsumer) {
  InputStream inputs(std::make_unique<CountingSource>(1'000'000), 0, 1);
  Loader loader(kOptions, inputs);
  loader.start(delayed_prepare());
}

TEST(Loader, EmptyInput) {
  InputStream inputs(std::make_unique<CountingSource>(0), 0, 1);
  Loader loader(kOptions, inputs);
  loader.start(number_prepare());
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, FailureOfTheInputsComesAfterTheWholeBatchesBeforeIt) {
  class Failing final : public Source {
   public:
    bool do_next(Item& item, StopFlag /*stop*/) override {
      item = Item{};
      item.name = item_name(0);
      if (taken_++ == 17) {
        throw Error("the list broke");
      }
      return true;
    }

   private:
    int taken_ = 0;
  };
  InputStream inputs(std::make_unique<Failing>(), 0, 1);
  Loader loader(kOptions, inputs);
  loader.start(number_prepare());
  for (int whole = 0; whole < 2; ++whole) {
    Batch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->count, 7U);
    loader.recycle(*batch);
  }
  EXPECT_THROW((void)loader.next(), Error);
}

// Prepares as number_prepare, but throws `error` at input number `at`.
template <typename Thrown>
std::function<Prepare()> throwing_prepare(std::uint64_t at, const Thrown& error) {
  return [at, error]() -> Prepare {
    return [at, error, prepare = number_prepare()()](Item& item, std::span<std::uint8_t> pixels,
                                                     Slot& slot, const Limits& limits) {
      if (item.number == at) {
        throw error;
      }
      prepare(item, pixels, slot, limits);
    };
  };
}

template <typename Thrown>
void expect_end_of_job(const Thrown& error, const std::string& reason) {
  InputStream inputs(std::make_unique<CountingSource>(1'000'000), 0, 1);
  Loader loader(kOptions, inputs);
  loader.start(throwing_prepare(16, error));
  for (int whole = 0; whole < 2; ++whole) {
    Batch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->count, 7U);
    loader.recycle(*batch);
  }
  try {
    (void)loader.next();
    FAIL() << "the third batch was whole";
  } catch (const ResourceError& caught) {
    EXPECT_PRED2(contains, caught.what(), reason);
    EXPECT_PRED2(contains, caught.what(), item_name(16));
  }
}

TEST(Loader, LackOfResourcesEndsTheJobAndIsNoFaultOfTheInput) {
  expect_end_of_job(std::bad_alloc(), "not enough memory");
  expect_end_of_job(ResourceError("cannot open: Too many open files"), "Too many open files");
}

TEST(Loader, StopReachesAnImageThatIsBeingDecoded) {
  InputStream inputs(std::make_unique<CountingSource>(10), 0, 1);
  std::atomic<int> begun = 0;
  const auto endless = [&]() -> Prepare {
    return [&](Item& /*item*/, std::span<std::uint8_t> /*pixels*/, Slot& /*slot*/,
               const Limits& limits) {
      ++begun;
      for (;;) {
        limits.stop.poll();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
  };
  Loader loader(kOptions, inputs);
  loader.start(endless);
  while (begun == 0) {
    std::this_thread::yield();
  }
  loader.stop();
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, ImagesWaitForMemoryInsteadOfTakingIt) {
  constexpr std::size_t kMemory = 4000;
  constexpr std::size_t kImage = kMemory / 4 * 3 / 2;  // two fit into the part for decoding
  LoaderOptions options = kOptions;
  options.decode_memory = kMemory;
  InputStream inputs(std::make_unique<CountingSource>(200), 0, 1);
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  const auto prepare = [&]() -> Prepare {
    return [&](Item& /*item*/, std::span<std::uint8_t> /*pixels*/, Slot& /*slot*/,
               const Limits& limits) {
      const MemoryPool::Lease lease = limits.decoded->take(kImage, limits.stop);
      const int now = ++at_once;
      int seen = most;
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      --at_once;
    };
  };
  Loader loader(options, inputs);
  loader.start(prepare);
  while (Batch* batch = loader.next()) {
    loader.recycle(*batch);
  }
  EXPECT_EQ(most, 2);
}

TEST(Loader, SyntheticPixelsAreTheSameEverywhere) {
  std::vector<std::uint8_t> first(13);
  std::vector<std::uint8_t> again(13);
  std::vector<std::uint8_t> other(13);
  fill_synthetic(1, first);
  fill_synthetic(1, again);
  fill_synthetic(2, other);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

}  // namespace
}  // namespace fovea::pipeline::testing
