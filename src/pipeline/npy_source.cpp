// NpySource: reads rows of pixels.npy, with names and sizes from pixels.index.jsonl if it exists.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/descriptor.hpp"
#include "io/line_reader.hpp"
#include "io/npy.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/prepare.hpp"
#include "pipeline/source.hpp"

namespace fovea::pipeline {
namespace {

class NpySource final : public Source {
 public:
  NpySource(const std::string& path, const Preprocessing& preprocessing)
      : Source(path, true),
        preprocessing_(preprocessing),
        array_(std::make_shared<io::NpyFile>(path)) {
    const Shape& shape = array_->shape();
    const Shape row = PixelLayout{.preprocessing = preprocessing, .patch = 0}.row_shape();
    if (array_->dtype() != DType::kU8 || shape.rank() == 0 ||
        !std::ranges::equal(shape.dims().subspan(1), row.dims())) {
      fail("{}: the array is {} {}, but this model takes pixels as u8 [n, {}]", io::escape(path),
           to_string(array_->dtype()), shape.to_string(), fmt::join(row.dims(), ", "));
    }
    rows_ = shape[0];
    const std::string stem = path.substr(0, path.size() - std::string_view(".npy").size());
    const std::string index = stem + ".index.jsonl";
    if (::access(index.c_str(), F_OK) == 0) {
      index_name_ = index;
      index_ = io::with_path(index, [&] {
        (void)io::open_regular_file(index);
        return std::make_unique<io::LineReader>(index, '\n');
      });
    } else if (preprocessing.keeps_proportions()) {
      fail("{}: the index {}, with the sizes of the images, is missing", io::escape(path),
           io::escape(index));
    }
  }

 private:
  bool do_next(Item& item, StopFlag stop) override {
    if (row_ == rows_) {
      check_index_ends(stop);
      return false;
    }
    item = Item{};
    item.kind = Item::Kind::kPixels;
    item.name = fmt::format("{}#{}", name(), row_);
    item.width = preprocessing_.width;
    item.height = preprocessing_.height;
    if (index_) {
      read_index(item, stop);
    }
    item.array = array_;
    item.number = static_cast<std::uint64_t>(row_++);
    return true;
  }

  bool next_line(std::string& text, StopFlag stop) {
    return io::with_path(index_name_, [&] { return index_->next(text, stop); });
  }

  void check_index_ends(StopFlag stop) {
    std::string text;
    if (index_ && next_line(text, stop)) {
      fail("{}: the index has more lines than the {} rows of the array; remove it or make it again",
           io::escape(index_name_), rows_);
    }
  }

  void read_index(Item& item, StopFlag stop) {
    std::string text;
    if (!next_line(text, stop)) {
      fail(
          "{}: the index ends after {} lines, but the array has {} rows; remove it or make it "
          "again",
          io::escape(index_name_), row_, rows_);
    }
    try {
      IndexLine line = parse_index_line(text);
      if (line.row != static_cast<std::uint64_t>(row_)) {
        fail("the row number is {}, expected {}", line.row, row_);
      }
      item.name = std::move(line.source);
      item.width = line.width;
      item.height = line.height;
      item.file = line.file;
      item.sha256 = line.sha256;
      item.lost_range = line.lost_range;
      if (preprocessing_.keeps_proportions()) {
        set_patches(line.patches, item);
      }
    } catch (const Error& error) {
      fail("{}: line {}: {}", io::escape(index_name_), index_->number(), error.what());
    }
  }

  void set_patches(const PatchGrid& patches, Item& item) const {
    if (patches == PatchGrid{}) {
      fail("\"patches\" is missing: the array was made for another model");
    }
    if (patches.patches() > preprocessing_.max_patches) {
      fail("the image has {}x{} patches, but a row of the array holds at most {}", patches.height,
           patches.width, preprocessing_.max_patches);
    }
    item.grid = patches;
  }

  Preprocessing preprocessing_;
  std::shared_ptr<const io::NpyFile> array_;
  std::int64_t rows_ = 0;
  std::int64_t row_ = 0;
  std::unique_ptr<io::LineReader> index_;
  std::string index_name_;
};

}  // namespace

std::unique_ptr<Source> make_npy_source(const std::string& path,
                                        const Preprocessing& preprocessing) {
  return std::make_unique<NpySource>(path, preprocessing);
}

}  // namespace fovea::pipeline
