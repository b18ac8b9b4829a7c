// Runs rows through the two passes of a resize in Pillow's order, on which the result depends
// because it is rounded to bytes between the passes.
#include "image/row_resizer.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

namespace fovea::image {
namespace {

std::size_t padded(int pixels) {
  const std::size_t bytes = static_cast<std::size_t>(pixels) * kChannels + kRowPadding;
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// Whether the vertical pass comes first: when the image loses more than twice as many rows as
/// columns. Pillow does so since 13.0 (python-pillow pull request 9549).
bool vertical_first(int width, int height, int out_width, int out_height) {
  const std::int64_t rows_lost = std::int64_t{height} - out_height;
  const std::int64_t columns_lost = std::int64_t{width} - out_width;
  return rows_lost > 0 && rows_lost > 2 * columns_lost;
}

}  // namespace

// The sizes of both passes of a resize: `along` blends source rows, and `across` resamples within a
// row. For an upright source these are the vertical and the horizontal pass; for a transposed one,
// the opposite.
struct RowResizer::Geometry {
  bool along_first;
  int across_pixels;
  int along_outputs;
  int taps;       // maximum number of source rows that one output row blends
  int ring_rows;  // capacity of the ring buffer for rows to be blended
  std::size_t ring_stride;
  std::size_t band_rows;
  std::size_t band_stride;

  Geometry(const Shape& shape, int slots)
      : along_first(
            shape.orientation.transpose
                ? !vertical_first(shape.height, shape.width, shape.out_width, shape.out_height)
                : vertical_first(shape.width, shape.height, shape.out_width, shape.out_height)),
        across_pixels(shape.orientation.transpose ? shape.out_height : shape.out_width),
        along_outputs(shape.orientation.transpose ? shape.out_width : shape.out_height),
        taps(shape.height == along_outputs
                 ? 1
                 : max_tap_groups(shape.height, along_outputs, shape.filter) * kTapsPerGroup),
        ring_rows(taps + kBandRows),
        ring_stride(padded(along_first ? shape.width : across_pixels)),
        band_rows(along_first ? std::size_t{2} * kBandRows : static_cast<std::size_t>(slots)),
        band_stride(padded(std::max(shape.width, across_pixels))) {}

  [[nodiscard]] std::size_t ring_bytes() const {
    return kRowOffset + static_cast<std::size_t>(ring_rows) * ring_stride;
  }
  [[nodiscard]] std::size_t band_bytes() const { return kRowOffset + band_rows * band_stride; }
};

std::size_t RowResizer::memory(const Shape& shape, int slots) {
  const auto weights = [&shape](int in, int out) {
    return in == out ? std::size_t{0}
                     : static_cast<std::size_t>(out) *
                           (static_cast<std::size_t>(max_tap_groups(in, out, shape.filter)) *
                                kWordsPerGroup * sizeof(std::int32_t) +
                            2 * sizeof(int));
  };
  const Geometry geometry(shape, slots);
  return geometry.ring_bytes() + geometry.band_bytes() +
         static_cast<std::size_t>(geometry.taps) * sizeof(void*) +
         weights(shape.width, geometry.across_pixels) +
         weights(shape.height, geometry.along_outputs);
}

RowResizer::RowResizer(const Shape& shape, std::span<std::uint8_t> out, StopFlag stop, int slots)
    : RowResizer(shape, Geometry(shape, slots), out, stop) {}

RowResizer::RowResizer(const Shape& shape, const Geometry& geometry, std::span<std::uint8_t> out,
                       StopFlag stop)
    : stop_(stop),
      transposed_(shape.orientation.transpose),
      along_first_(geometry.along_first),
      backwards_(transposed_ ? shape.orientation.mirror_x : shape.orientation.mirror_y),
      mirrored_(transposed_ ? shape.orientation.mirror_y : shape.orientation.mirror_x),
      out_height_(shape.out_height),
      out_width_(shape.out_width),
      out_(out.data()),
      row_pixels_(shape.width),
      across_pixels_(geometry.across_pixels),
      along_outputs_(geometry.along_outputs),
      across_(shape.width == across_pixels_
                  ? nullptr
                  : axis_weights(shape.width, across_pixels_, shape.filter, mirrored_, stop)),
      along_(shape.height == along_outputs_
                 ? nullptr
                 : axis_weights(shape.height, along_outputs_, shape.filter, backwards_, stop)),
      ring_rows_(geometry.ring_rows),
      ring_stride_(geometry.ring_stride),
      band_stride_(geometry.band_stride),
      ring_(geometry.ring_bytes()),
      band_(geometry.band_bytes()),
      taps_(static_cast<std::size_t>(geometry.taps)) {
  const std::size_t bytes = static_cast<std::size_t>(out_height_) *
                            static_cast<std::size_t>(out_width_) * std::size_t{kChannels};
  if (out.size() != bytes) {
    fail("resizing to {}x{} needs {} bytes of output, not {}", out_width_, out_height_, bytes,
         out.size());
  }
}

std::uint8_t* RowResizer::slot(int index) {
  return along_first_ ? ring(received_ + index) : band(index);
}

void RowResizer::feed(int count) {
  if (along_first_) {
    stop_.poll();
    received_ += count;
    emit();
    return;
  }
  SourceBand rows{};
  for (int row = 0; row < kBandRows; ++row) {
    rows[static_cast<std::size_t>(row)] = band(row);
  }
  feed(rows, count);
}

void RowResizer::feed(const SourceBand& rows, int count) {
  stop_.poll();
  if (along_first_) {
    for (int row = 0; row < count; ++row) {
      std::memcpy(ring(received_ + row), rows[static_cast<std::size_t>(row)],
                  static_cast<std::size_t>(row_pixels_) * kChannels);
    }
  } else {
    OutputBand targets{};
    for (int row = 0; row < kBandRows; ++row) {
      targets[static_cast<std::size_t>(row)] = ring(received_ + row);
    }
    resample_across(rows, count, targets);
  }
  received_ += count;
  emit();
}

// Resamples `count` rows. Targets past `count` are overwritten with copies of the first row.
void RowResizer::resample_across(const SourceBand& rows, int count, const OutputBand& targets) {
  if (across_) {
    SourceBand filled = rows;
    std::fill(filled.begin() + count, filled.end(), rows[0]);
    resize_row_band(filled, *across_, targets);
    return;
  }
  for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
    const auto bytes = static_cast<std::size_t>(row_pixels_) * kChannels;
    if (!mirrored_) {
      std::memcpy(targets[row], rows[row], bytes);
      continue;
    }
    for (std::size_t offset = 0; offset < bytes; offset += kChannels) {
      std::memcpy(targets[row] + offset, rows[row] + bytes - kChannels - offset, kChannels);
    }
  }
}

int RowResizer::rows_needed(int number) const {
  if (!along_) {
    return number + 1;
  }
  const auto index = static_cast<std::size_t>(output_index(number));
  return along_->first[index] + along_->count[index];
}

void RowResizer::blend(int number, std::uint8_t* target) {
  const std::size_t bytes =
      static_cast<std::size_t>(along_first_ ? row_pixels_ : across_pixels_) * kChannels;
  if (!along_) {
    std::memcpy(target, ring(number), bytes);
    return;
  }
  const int index = output_index(number);
  const int first = along_->first[static_cast<std::size_t>(index)];
  const int count = along_->count[static_cast<std::size_t>(index)];
  const int groups = along_->groups(index);
  for (int tap = 0; tap < groups * kTapsPerGroup; ++tap) {
    taps_[static_cast<std::size_t>(tap)] = ring(first + std::min(tap, count - 1));
  }
  blend_rows(taps_.data(), along_->row(index), groups, bytes, target);
}

void RowResizer::emit() {
  while (emitted_ < along_outputs_ && rows_needed(emitted_) <= received_) {
    if (along_first_) {
      blend(emitted_, band(pending_));
      ++emitted_;
      if (++pending_ == kBandRows || emitted_ == along_outputs_) {
        emit_pending();
      }
      continue;
    }
    const int index = output_index(emitted_);
    if (transposed_) {
      blend(emitted_, band(0));  // the band is free, since its rows are already in the ring
      write_column(index, band(0));
    } else {
      blend(emitted_, output_row(index));
    }
    ++emitted_;
  }
}

/// Runs the second pass on the blended rows that are pending in the band.
void RowResizer::emit_pending() {
  SourceBand rows{};
  OutputBand results{};
  for (int row = 0; row < kBandRows; ++row) {
    rows[static_cast<std::size_t>(row)] = band(row);
    results[static_cast<std::size_t>(row)] = band(kBandRows + row);
  }
  resample_across(rows, pending_, results);
  for (int row = 0; row < pending_; ++row) {
    const int index = output_index(emitted_ - pending_ + row);
    const std::uint8_t* result = results[static_cast<std::size_t>(row)];
    if (transposed_) {
      write_column(index, result);
    } else {
      std::memcpy(output_row(index), result, static_cast<std::size_t>(out_width_) * kChannels);
    }
  }
  pending_ = 0;
}

void RowResizer::write_column(int x, const std::uint8_t* pixels) {
  std::uint8_t* to = out_ + static_cast<std::size_t>(x) * kChannels;
  for (int y = 0; y < out_height_; ++y) {
    std::memcpy(to, pixels, kChannels);
    to += static_cast<std::size_t>(out_width_) * kChannels;
    pixels += kChannels;
  }
}

}  // namespace fovea::image
