// What the pipeline's tests share: scratch folders, small files, tar archives, made-up encoders.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "io/npy.hpp"
#include "pipeline/manifest.hpp"
#include "pipeline/run.hpp"
#include "pipeline/source.hpp"

namespace fovea::pipeline::testing {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

/// For EXPECT_PRED2: whether a message says something.
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A folder of the test's own, removed afterwards.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fovea-pipeline-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(std::string_view name) const { return (folder_ / name).native(); }

  std::string write(std::string_view name, std::string_view content = "x") const {
    const fs::path file = folder_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file.native();
  }

  fs::path folder_;
};

inline std::string read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

template <typename T>
std::vector<T> elements_of(const io::NpyFile& array) {
  std::vector<T> values(static_cast<std::size_t>(array.shape().elements()));
  array.read(0, std::span(values));
  return values;
}

/// Every file below `folder` but the lock, by its name.
inline std::map<std::string, std::string> read_folder(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != ".lock") {
      files[entry.path().filename().native()] = read_text(entry.path());
    }
  }
  return files;
}

/// One member of a POSIX ustar archive, padded to whole blocks.
inline std::string tar_member(std::string_view name, std::string_view content) {
  std::array<char, 512> header{};
  const auto put = [&](std::size_t at, std::string_view text) {
    std::ranges::copy(text, header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", content.size()));
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) {
    sum += static_cast<unsigned char>(c);
  }
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  std::string member(header.data(), header.size());
  member += content;
  member.resize((member.size() + 511) / 512 * 512, '\0');
  return member;
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

/// All items of a source; with their bytes when `load`.
inline std::vector<Item> drain(Source& source, bool load = true) {
  std::vector<Item> items;
  Item item;
  while (source.next(item)) {
    if (load) {
      source.load(item);
    }
    items.push_back(std::move(item));
    item = Item{};
  }
  return items;
}

inline std::vector<std::string> names_of(const std::vector<Item>& items) {
  std::vector<std::string> names;
  std::ranges::transform(items, std::back_inserter(names), &Item::name);
  return names;
}

inline std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string item_name(std::uint64_t number) {
  return fmt::format("item-{}", number);
}

/// A source of `count` items named "item-<i>", with nothing behind them.
class CountingSource final : public Source {
 public:
  explicit CountingSource(std::uint64_t count) : count_(count) {}
  bool do_next(Item& item, StopFlag /*stop*/) override {
    if (taken == count_) {
      return false;
    }
    item = Item{};
    item.number = taken;
    item.name = item_name(taken++);
    return true;
  }
  std::uint64_t taken = 0;

 private:
  std::uint64_t count_;
};

inline constexpr std::size_t kImageBytes = 24;
inline constexpr std::size_t kDimension = 4;

/// Whether made-up image number i is a damaged one.
inline bool damaged(std::uint64_t number) {
  return number % 13 == 5;
}

/// Pixels made of the item's number; some items fail.
inline std::function<Prepare()> number_prepare() {
  return [] {
    return [](Item& item, std::span<std::uint8_t> pixels, Slot& slot, const Limits& /*limits*/) {
      slot.width = static_cast<int>(item.number % 1000) + 1;
      slot.height = 7;
      if (damaged(item.number)) {
        throw Error("damaged on purpose");
      }
      std::memset(pixels.data(), 0, pixels.size());
      std::memcpy(pixels.data(), &item.number, sizeof(item.number));
    };
  };
}

/// Embeddings that tell the image, its place in the batch, and the size of the batch: a resumed
/// job gets the same ones only when it computes the same batches.
inline Encode telling_encode() {
  return [](std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
            std::span<std::byte> rows, const OnComputed& /*on_computed*/) {
    const std::span<float> out = as_floats(rows);
    const std::int64_t images = std::ssize(grids);
    for (std::int64_t image = 0; image < images; ++image) {
      std::uint64_t number = 0;
      std::memcpy(&number, patches.data() + static_cast<std::size_t>(image) * kImageBytes,
                  sizeof(number));
      float* row = out.data() + static_cast<std::size_t>(image) * kDimension;
      row[0] = static_cast<float>(number);
      row[1] = static_cast<float>(image);
      row[2] = static_cast<float>(images);
      row[3] = 1;
    }
  };
}

inline JobIdentity test_identity(std::uint64_t shard_rows = 100) {
  JobIdentity identity;
  identity.model = "model";
  identity.model_sha256 = "0123456789abcdef";
  identity.preprocessing_sha256 = "fedcba9876543210";
  identity.precision = "fp32";
  identity.dimension = kDimension;
  identity.normalize = false;
  identity.shard_rows = shard_rows;
  return identity;
}

inline RunOptions test_run_options(std::size_t batch_size = 8, int threads = 3) {
  RunOptions options;
  options.loader = {.threads = threads,
                    .batch_size = batch_size,
                    .image_bytes = kImageBytes,
                    .row_bytes = kDimension * sizeof(float)};
  options.normalize = false;
  return options;
}

}  // namespace fovea::pipeline::testing
