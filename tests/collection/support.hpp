// What the collection's tests share: photos that are numbers in small files, embedded by a made-up
// encoder, and system calls that end the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "collection/update.hpp"
#include "core/error.hpp"
#include "io/digest.hpp"
#include "io/npy.hpp"
#include "io/text.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/left_out.hpp"
#include "pipeline/output.hpp"
#include "pipeline/read_file.hpp"
#include "pipeline/run.hpp"
#include "pipeline/source.hpp"

namespace fovea::collection::testing {

namespace fs = std::filesystem;

inline constexpr std::int64_t kDimension = 2;

/// The rows of an output by the names of their photos, and what failed.
struct Content {
  std::vector<std::string> order;
  std::map<std::string, std::pair<std::string, std::string>> rows;  // bytes; line without its row
  std::map<std::string, std::string> errors;

  friend bool operator==(const Content&, const Content&) = default;
};

inline std::string read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream stream(path, std::ios::binary);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// Fails where an array is not beside its own index.
inline Content read_content(const fs::path& output) {
  Content content;
  for (std::size_t number = 0;; ++number) {
    const fs::path data = output / fmt::format("embeddings-{:05}.npy", number);
    if (!fs::exists(data)) {
      break;
    }
    const io::NpyFile array(data);
    const std::vector<std::string> lines =
        lines_of(output / fmt::format("index-{:05}.jsonl", number));
    EXPECT_EQ(static_cast<std::size_t>(array.shape()[0]), lines.size()) << data;
    for (std::size_t row = 0; row < lines.size(); ++row) {
      std::string bytes(kDimension * sizeof(float), '\0');
      array.read(row * kDimension,
                 std::span(reinterpret_cast<float*>(bytes.data()), std::size_t{kDimension}));
      pipeline::IndexLine line = pipeline::parse_index_line(lines[row]);
      EXPECT_EQ(line.row, row);
      line.row = 0;
      content.order.push_back(line.source);
      EXPECT_TRUE(
          content.rows.emplace(line.source, std::pair(bytes, pipeline::format_index_line(line)))
              .second)
          << line.source << " has two rows";
    }
  }
  for (const std::string& line : lines_of(output / "errors.jsonl")) {
    const std::string name = pipeline::parse_error_source(line);
    EXPECT_TRUE(content.errors.emplace(name, line).second) << name;
  }
  return content;
}

/// Photos are files with a number and what makes them longer; "x" is a damaged one.
class CollectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fovea-collection-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    fs::create_directory(folder_ / "p");
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string photo(const std::string& name) const {
    return (folder_ / "p" / name).native();
  }
  /// Writes a photo with a date of its own, unless it is to look like before.
  void write(const std::string& name, const std::string& text, bool keep_date = false) {
    const fs::path path = photo(name);
    fs::create_directories(path.parent_path());
    const auto date = keep_date ? fs::last_write_time(path) : fs::file_time_type();
    std::ofstream(path, std::ios::binary) << text;
    fs::last_write_time(
        path,
        keep_date ? date : fs::file_time_type::clock::now() + std::chrono::seconds(++written_));
  }
  void remove(const std::string& name) { fs::remove(photo(name)); }

  [[nodiscard]] pipeline::JobIdentity identity() const {
    pipeline::JobIdentity identity;
    identity.model = "model";
    identity.working_folder = "/w";
    identity.model_sha256 = "0123456789abcdef";
    identity.preprocessing_sha256 = "fedcba9876543210";
    identity.precision = "fp32";
    identity.dimension = kDimension;
    identity.normalize = false;
    identity.shard_rows = shard_rows_;
    return identity;
  }

  [[nodiscard]] static pipeline::RunOptions run_options() {
    pipeline::RunOptions options;
    options.loader = {.threads = 2,
                      .batch_size = 3,
                      .image_bytes = sizeof(float),
                      .row_bytes = kDimension * sizeof(float)};
    options.normalize = false;
    return options;
  }

  // Pixels are the number in the file.
  static std::function<pipeline::Prepare()> prepare(const pipeline::ContentCheck& check) {
    return [check]() -> pipeline::Prepare {
      return [check](pipeline::Item& item, std::span<std::uint8_t> pixels, pipeline::Slot& slot,
                     const pipeline::Limits& limits) {
        if (item.kind == pipeline::Item::Kind::kFailed) {
          slot.error = item.error;
          return;
        }
        std::vector<std::byte> bytes;
        const auto lease = pipeline::read_file(item.name, bytes, limits, &slot.file);
        const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        if (check.sum) {
          io::Digest sum;
          sum.add(text);
          slot.sha256 = sum.hex();
          slot.is_known = check.is_known && check.is_known(slot.sha256);
        }
        if (text.starts_with('x')) {
          fail("damaged: {}", text);
        }
        slot.width = static_cast<int>(text.size());
        slot.height = 1;
        const auto value = std::stof(text);
        std::memcpy(pixels.data(), &value, sizeof(value));
      };
    };
  }

  [[nodiscard]] pipeline::Encode encode() const {
    return [this](std::span<const std::uint8_t> pixels, std::span<const PatchGrid> grids,
                  std::span<std::byte> rows, const pipeline::OnComputed& /*on_computed*/) {
      const std::span<float> out = pipeline::as_floats(rows);
      computed_ += grids.size();
      for (std::size_t image = 0; image < grids.size(); ++image) {
        float value = 0;
        std::memcpy(&value, pixels.data() + image * sizeof(value), sizeof(value));
        out[image * kDimension] = value;
        out[image * kDimension + 1] = -value;
      }
    };
  }

  [[nodiscard]] pipeline::InputStream inputs(pipeline::LeftOut& left_out) const {
    InputOptions options;
    options.inputs = inputs_.empty() ? std::vector{(folder_ / "p").native()} : inputs_;
    return {pipeline::make_source(options, {}, &left_out), 0, 1};
  }

  /// A run that is not an update.
  void embed(const std::string& name, bool checksum = false) const {
    pipeline::LeftOut left_out;
    pipeline::InputStream stream = inputs(left_out);
    pipeline::FolderOutput output(folder_ / name, identity(), false);
    output.begin();
    (void)pipeline::run_job(
        run_options(), stream, prepare({.sum = checksum}), [this] { return encode(); }, output);
    output.finish();
  }

  UpdateCounts update(const std::string& name, UpdateOptions options = {}) const {
    pipeline::LeftOut left_out;
    pipeline::InputStream stream = inputs(left_out);
    pipeline::FolderOutput output(folder_ / name, identity(), false);
    Update update(output, identity(), std::move(options));
    update.select(stream);
    (void)pipeline::run_job(
        run_options(), stream, prepare(update.contents()), [this] { return encode(); },
        update.staging());
    return update.finish(left_out.empty_folders(), left_out.counts());
  }

  [[nodiscard]] Content content(const std::string& name) const {
    return read_content(folder_ / name);
  }
  /// What a run that begins anew gives.
  [[nodiscard]] Content fresh() const {
    embed("fresh");
    Content found = content("fresh");
    fs::remove_all(folder_ / "fresh");
    return found;
  }
  /// Compares all but the order.
  void expect_fresh(const std::string& name) const {
    const Content is = content(name);
    const Content should = fresh();
    EXPECT_EQ(is.rows, should.rows);
    EXPECT_EQ(is.errors, should.errors);
    EXPECT_FALSE(fs::exists(folder_ / name / ".update"));
  }

  fs::path folder_;
  std::vector<std::string> inputs_;  // by default, the folder of all photos
  std::uint64_t shard_rows_ = 4;
  int written_ = 0;
  mutable std::uint64_t computed_ = 0;  // images by encode()
};

}  // namespace fovea::collection::testing
