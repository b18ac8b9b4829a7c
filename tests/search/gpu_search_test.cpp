// Exact search's kernels on the emulator, alone and behind a whole search: its results are those of
// the CPU, to the last bit.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/thread_pool.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "gpu/forwarding_device.hpp"
#include "gpu/launch/search.hpp"
#include "search/gpu/gpu_scanner.hpp"
#include "search/nearest.hpp"
#include "support.hpp"

namespace fovea::search {
namespace {

using gpu::KernelId;

constexpr std::array kKernelsOfSearches{KernelId::search_scan_8_fine, KernelId::search_scan_16,
                                        KernelId::search_scan_64, KernelId::search_pick,
                                        KernelId::search_bounds};

/// A Hopper of the emulator with one SM, so that warps take several tiles; it counts what is
/// launched on all of them.
class CountingDevice final : public gpu::ForwardingDevice {
 public:
  explicit CountingDevice(std::size_t free_bytes)
      : ForwardingDevice(gpu::open_emulated_device({.seed = seed()})),
        free_(free_bytes),
        info_(ForwardingDevice::info()) {
    info_.sm_count = 1;
  }

  [[nodiscard]] const gpu::DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::size_t free_memory() override { return free_; }
  [[nodiscard]] gpu::Kernel find(gpu::Module module, std::string_view entry) override {
    const gpu::Kernel kernel = ForwardingDevice::find(module, entry);
    names_[kernel.handle] = entry;
    return kernel;
  }
  void launch(gpu::Kernel kernel, const gpu::LaunchConfig& config,
              std::span<const std::byte> params, gpu::Stream& stream) override {
    launched[names_.at(kernel.handle)] += 1;
    ForwardingDevice::launch(kernel, config, params, stream);
  }

  inline static std::map<std::string, int> launched;

 private:
  static std::uint64_t seed() {
    return static_cast<std::uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  }

  std::size_t free_;
  gpu::DeviceInfo info_;
  std::map<const void*, std::string> names_;
};

bool has_kernels() {
  return !gpu::kernel_images().empty();
}

OtherDevice emulated(const GpuScanLimits& limits = {}, std::size_t free_bytes = 1 << 30,
                     bool is_optional = false) {
  return {.open =
              [=] {
                return std::shared_ptr<RowScanner>(
                    make_gpu_scanner(std::make_unique<CountingDevice>(free_bytes), limits));
              },
          .is_optional = is_optional};
}

using Results = std::vector<std::vector<Match>>;

class GpuSearchTest : public test::SearchTest {
 protected:
  void SetUp() override {
    SearchTest::SetUp();
    if (!has_kernels()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
    random_.seed(static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed()));
    CountingDevice::launched.clear();
  }

  /// Rows that have much in common, some all but equal to those before, some of all sizes.
  std::vector<float> rows(std::int64_t count, std::int64_t dimension) {
    const auto width = static_cast<std::size_t>(dimension);
    const std::vector<float> common = random(1, dimension);
    std::vector<float> values = random(count, dimension);
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
      const auto kind = random_() % 8;
      for (std::size_t at = 0; at < width; ++at) {
        float& value = values[row * width + at];
        value += common[at] * (at < 3 ? 9.0F : 1.0F);
        if (kind == 0 && row > 0) {
          value = values[(row - 1) * width + at];
        } else if (kind == 1) {
          value *= at == row % width ? 300.0F : 1e-3F;
        } else if (kind == 2) {
          value *= row % 16 == 3 ? 0.0F : 1e-6F;
        }
      }
      if (kind == 0) {
        float& one = values[row * width + random_() % width];
        one = std::nextafter(one, 1.0F);
      }
    }
    return values;
  }

  /// Like rows, opposite to them, and unlike any.
  std::vector<float> queries(std::size_t count) {
    const auto width = static_cast<std::size_t>(dimension_);
    std::vector<float> all = random(static_cast<std::int64_t>(count), dimension_);
    for (std::size_t query = 0; query < count; ++query) {
      const float* const from = row(static_cast<std::int64_t>(random_() % rows_));
      const float sign = query % 3 == 1 ? -1.0F : 1.0F;
      for (std::size_t at = 0; at < width && query % 3 < 2; ++at) {
        all[query * width + at] = sign * from[at] + 0.1F * all[query * width + at];
      }
    }
    return all;
  }
};

TEST_F(GpuSearchTest, FindsWhatTheCpuFindsToTheLastBit) {
  ThreadPool pool(3);
  const SearchProgress silent;
  for (const std::int64_t dimension : {64, 200}) {
    TearDown();
    SearchTest::SetUp();
    values_.clear();
    rows_ = 0;
    shards_ = 0;
    add_shard(rows(203, dimension), dimension, DType::kF32);
    add_shard(rows(130, dimension), dimension, DType::kF16);
    const Shards shards({folder_});
    Searcher on_cpu(shards, pool, RowsInMemory::kNever, silent);
    Searcher whole(shards, pool, RowsInMemory::kAuto, silent, emulated());
    // Lists and bounds that do not fit at once, nor do the queries.
    Searcher in_parts(shards, pool, RowsInMemory::kAuto, silent,
                      emulated({.queries = 5, .tiles = 3, .pairs = 5}));
    for (const auto& [count, k] :
         std::initializer_list<std::pair<std::size_t, int>>{{3, 9}, {9, 1}, {67, 2}}) {
      SCOPED_TRACE(fmt::format("dimension {}, {} queries, k {}", dimension, count, k));
      const std::vector<float> wanted = queries(count);
      const Results expected = on_cpu.nearest(wanted, k, {});
      ASSERT_EQ(whole.nearest(wanted, k, {}), expected);
      if (count < 20) {
        ASSERT_EQ(in_parts.nearest(wanted, k, {}), expected);
      }
    }
    // More than there are tiles, and than there are rows.
    const std::vector<float> one = queries(1);
    for (const int k : {4, 2000}) {
      ASSERT_EQ(in_parts.nearest(one, k, {}), on_cpu.nearest(one, k, {}));
    }
    for (const std::int64_t own : {std::int64_t{5}, rows_ - 1}) {
      const std::vector<float> query(row(own), row(own) + dimension);
      if (exact(query.data(), query.data(), dimension) > 0) {
        const std::vector<std::int64_t> left_out{own};
        ASSERT_EQ(whole.nearest(query, 1, left_out), on_cpu.nearest(query, 1, left_out));
      }
    }
  }
  for (const KernelId kernel : kKernelsOfSearches) {
    EXPECT_GT(CountingDevice::launched[std::string(gpu::info_of(kernel).name)], 0);
  }
}

// A query's own row is the best of its tile: without a rank of one more, it alone would be the
// floor.
TEST_F(GpuSearchTest, ARowThatIsLeftOutIsNoFloor) {
  const std::int64_t dimension = 64;
  add_shard(random(320, dimension), dimension);
  const Shards shards({folder_});
  ThreadPool pool(1);
  const SearchProgress silent;
  Searcher searcher(shards, pool, RowsInMemory::kAuto, silent, emulated());
  Searcher on_cpu(shards, pool, RowsInMemory::kNever, silent);
  for (std::int64_t own = 0; own < 320; own += 71) {
    const std::vector<float> query(row(own), row(own) + dimension);
    const std::vector<std::int64_t> left_out{own};
    const Results found = searcher.nearest(query, 1, left_out);
    ASSERT_EQ(found, on_cpu.nearest(query, 1, left_out));
    ASSERT_EQ(found[0].size(), 1U);
  }
}

// What makes it fast: of rows that are unlike, few tiles are looked at closely.
TEST_F(GpuSearchTest, RulesOutMostTiles) {
  const std::int64_t dimension = 256;
  const std::int64_t count = 64 * 24;
  add_shard(random(count, dimension), dimension, DType::kF16);
  const Shards shards({folder_});
  RowReader reader(shards);
  const RowCoder coder(shards, reader);
  for (const std::int64_t queries_at_once : {1, 9}) {
    const std::shared_ptr<RowScanner> scanner = emulated().open();
    scanner->begin(coder, count, 1);
    RowCopy copy(coder, 512);
    for (std::int64_t first = 0; first < count; first += 512) {
      coder.encode(reader.read(RowBlock{0, first, 512}), 512, copy.row_codes(0), copy.terms, 0);
      scanner->upload(0, copy, 512, first);
    }
    scanner->end();
    std::vector<float> wanted;
    for (std::int64_t query = 0; query < queries_at_once; ++query) {
      wanted.insert(wanted.end(), row(query * 150 + 7), row(query * 150 + 7) + dimension);
    }
    const Queries checked = check_queries(wanted, static_cast<std::size_t>(dimension), {});
    std::size_t tiles = 0;
    scanner->find(coder, checked, 1, [&](std::span<const TileBounds> found) {
      for (const TileBounds& tile : found) {
        const auto own = static_cast<std::int64_t>(tile.query) * 150 + 7;
        EXPECT_EQ(tile.first, own / 64 * 64);
        const Bounds bounds = tile.bounds[static_cast<std::size_t>(own % 64)];
        EXPECT_LE(bounds.lower, 1);
        EXPECT_GE(bounds.upper, 1);
        EXPECT_GT(bounds.lower, 0.97F);
        ++tiles;
      }
    });
    EXPECT_EQ(tiles, static_cast<std::size_t>(queries_at_once));
  }
}

TEST_F(GpuSearchTest, RowsThatAreNoneAreNamed) {
  std::vector<float> values = random(400, 64);
  values[350 * 64 + 9] = std::numeric_limits<float>::quiet_NaN();
  add_shard(values, 64, DType::kF16);
  const Shards shards({folder_});
  ThreadPool pool(2);
  const SearchProgress silent;
  Searcher searcher(shards, pool, RowsInMemory::kAuto, silent, emulated());
  for (const std::int64_t count : {1, 9}) {
    const std::string error = thrown_by([&] { (void)searcher.nearest(random(count, 64), 2, {}); });
    EXPECT_SAYS(error, "row 350");
    EXPECT_SAYS(error, "NaN");
  }
}

TEST_F(GpuSearchTest, RowsThatDoNotFitAreAnErrorThatSaysHowManyBytes) {
  add_shard(random(3000, 64), 64);
  const Shards shards({folder_});
  ThreadPool pool(2);
  const SearchProgress silent;
  const std::size_t free_bytes = 20'000'000;
  Searcher asked(shards, pool, RowsInMemory::kNever, silent, emulated({}, free_bytes));
  const std::string error = thrown_by([&] { (void)asked.nearest(random(1, 64), 2, {}); });
  EXPECT_SAYS(error, "a search in 3000 rows of 64 numbers needs ");
  EXPECT_SAYS(error, "20000000 are free");
  EXPECT_SAYS(error, "--device cpu");
  // Nobody asked for it here: the CPU searches.
  std::vector<std::string> notes;
  Searcher optional(
      shards, pool, RowsInMemory::kNever, silent, emulated({}, free_bytes, true),
      {.on_device = {}, .on_note = [&](std::string_view note) { notes.emplace_back(note); }});
  const std::vector<float> query = random(1, 64);
  const Results first = optional.nearest(query, 2, {});
  for (int time = 2; time <= 3; ++time) {
    EXPECT_EQ(optional.nearest(query, 2, {}), first);
  }
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_SAYS(notes[0], "the GPU is not used: a search in 3000 rows");
  EXPECT_TRUE(CountingDevice::launched.empty());
}

TEST_F(GpuSearchTest, AnOptionalDeviceIsTakenFromTheSecondSearchOn) {
  add_shard(random(300, 64), 64);
  const Shards shards({folder_});
  ThreadPool pool(2);
  const SearchProgress silent;
  std::vector<std::string> places;
  Searcher searcher(
      shards, pool, RowsInMemory::kAuto, silent, emulated({}, 1 << 30, true),
      {.on_device = [&](std::string_view place) { places.emplace_back(place); }, .on_note = {}});
  const std::vector<float> query = random(1, 64);
  const Results first = searcher.nearest(query, 3, {});
  EXPECT_TRUE(CountingDevice::launched.empty());
  for (int time = 1; time <= 2; ++time) {
    EXPECT_EQ(searcher.nearest(query, 3, {}), first);
    EXPECT_EQ(CountingDevice::launched["search_scan_8_fine"], time);
  }
  EXPECT_FALSE(searcher.has_copy());
  ASSERT_EQ(places.size(), 2U);
  EXPECT_TRUE(places[0].starts_with("cpu (")) << places[0];
  EXPECT_TRUE(places[0].ends_with("), 2 threads")) << places[0];
  EXPECT_TRUE(places[1].starts_with("cuda (")) << places[1];
}

TEST_F(GpuSearchTest, AFileThatHasChangedIsRefused) {
  add_shard(random(300, 64), 64);
  const Shards shards({folder_});
  ThreadPool pool(2);
  const SearchProgress silent;
  Searcher searcher(shards, pool, RowsInMemory::kAuto, silent, emulated());
  const std::vector<float> query = random(1, 64);
  (void)searcher.nearest(query, 3, {});
  const std::filesystem::path path = folder_ / "embeddings-00000.npy";
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_SAYS(thrown_by([&] { (void)searcher.nearest(query, 3, {}); }),
              "changed while it was read");
}

// The floor and the list, for ranks, equal numbers, numbers of both signs, and infinities.
TEST(SearchPickKernel, ListsTheTilesThatReachTheFloor) {
  if (!has_kernels()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  std::mt19937 random(3);
  const std::unique_ptr<gpu::Device> device = gpu::open_emulated_device();
  gpu::KernelCache kernels(*device);
  const auto stream = device->make_stream();
  for (const std::int64_t tiles : {1, 40, 1500}) {
    const std::int64_t queries = 2;
    std::vector<float> best(static_cast<std::size_t>(queries * 2 * tiles));
    for (std::size_t i = 0; i < best.size(); ++i) {
      best[i] = static_cast<float>(static_cast<int>(random() % 401) - 200) / 100.0F;
      if (i / static_cast<std::size_t>(tiles) % 2 == 1) {  // not below the lower one
        best[i] = best[i - static_cast<std::size_t>(tiles)] + static_cast<float>(random() % 3) / 8;
      } else if (random() % 50 == 0) {
        best[i] = -INFINITY;
      }
    }
    const gpu::DeviceBuffer bounds(*device, best.size() * sizeof(float));
    device->copy_to_device(bounds.address(), std::as_bytes(std::span(best)), *stream);
    for (const std::int64_t rank : {1, 7, 39, 2600}) {
      const std::int64_t capacity = 30;
      for (std::int64_t skip = 0; skip < 60; skip += capacity) {
        std::vector<std::int32_t> picked(static_cast<std::size_t>(queries * (2 + capacity)));
        const gpu::DeviceBuffer list(*device, picked.size() * sizeof(std::int32_t));
        kernels.run(gpu::pick_launch(device->info(),
                                     {.tiles = tiles,
                                      .queries = queries,
                                      .rank = rank,
                                      .skip = skip,
                                      .capacity = capacity},
                                     bounds.address(), list.address()),
                    *stream);
        device->copy_to_host(std::as_writable_bytes(std::span(picked)), list.address(), *stream);
        for (std::int64_t query = 0; query < queries; ++query) {
          const float* const lowers = best.data() + query * 2 * tiles;
          std::vector<float> sorted(lowers, lowers + tiles);
          std::ranges::sort(sorted, std::greater<>());
          const float floor =
              rank <= tiles ? sorted[static_cast<std::size_t>(rank - 1)] : -INFINITY;
          std::vector<std::int32_t> all;
          for (std::int64_t tile = 0; tile < tiles; ++tile) {
            if (lowers[tiles + tile] >= floor) {
              all.push_back(static_cast<std::int32_t>(tile));
            }
          }
          const std::int32_t* const words = picked.data() + query * (2 + capacity);
          ASSERT_EQ(std::bit_cast<float>(words[0]), floor);
          ASSERT_EQ(words[1], static_cast<std::int32_t>(all.size()));
          for (std::int64_t i = 0; i < capacity; ++i) {
            const auto at = static_cast<std::size_t>(skip + i);
            ASSERT_EQ(words[2 + i], at < all.size() ? all[at] : -1);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::search
