// Feeding rows through the two passes of a resize, in the order that Pillow's result depends on,
// since it rounds to bytes between them.
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

int most_taps(const std::shared_ptr<const AxisWeights>& axis) {
  return axis ? axis->max_groups * kTapsPerGroup : 1;
}

/// Pillow's horizontal pass comes first, unless the image loses more than twice as many rows as
/// columns. python-pillow pull request 9549, in 13.0; older releases never do.
bool vertical_first(int width, int height, int out_width, int out_height) {
  const std::int64_t rows_lost = std::int64_t{height} - out_height;
  const std::int64_t columns_lost = std::int64_t{width} - out_width;
  return rows_lost > 0 && rows_lost > 2 * columns_lost;
}

}  // namespace

// The pass over source rows is called `along_` (it blends whole rows), the one inside a row
// `across_`: the vertical and the horizontal one of an upright source, the other way round of a
// transposed one.
RowResizer::RowResizer(int width, int height, Orientation orientation, int out_height,
                       int out_width, Resample filter, std::span<std::uint8_t> out)
    : transposed_(orientation.transpose),
      along_first_(transposed_ ? !vertical_first(height, width, out_width, out_height)
                               : vertical_first(width, height, out_width, out_height)),
      backwards_(transposed_ ? orientation.mirror_x : orientation.mirror_y),
      mirrored_(transposed_ ? orientation.mirror_y : orientation.mirror_x),
      out_height_(out_height),
      out_width_(out_width),
      out_(out.data()),
      row_pixels_(width),
      across_pixels_(transposed_ ? out_height : out_width),
      along_outputs_(transposed_ ? out_width : out_height),
      across_(width == across_pixels_ ? nullptr
                                      : axis_weights(width, across_pixels_, filter, mirrored_)),
      along_(height == along_outputs_ ? nullptr
                                      : axis_weights(height, along_outputs_, filter, backwards_)),
      ring_rows_(most_taps(along_) + kBandRows),
      ring_stride_(padded(along_first_ ? row_pixels_ : across_pixels_)),
      band_stride_(padded(std::max(row_pixels_, across_pixels_))),
      ring_(kRowOffset + static_cast<std::size_t>(ring_rows_) * ring_stride_),
      band_(kRowOffset + (along_first_ ? 2U : 1U) * kBandRows * band_stride_),
      taps_(static_cast<std::size_t>(most_taps(along_))) {
  const std::size_t bytes = static_cast<std::size_t>(out_height) *
                            static_cast<std::size_t>(out_width) * std::size_t{kChannels};
  if (out.size() != bytes) {
    fail("resize to {}x{} needs {} bytes of output, not {}", out_width, out_height, bytes,
         out.size());
  }
}

std::uint8_t* RowResizer::slot(int index) {
  return along_first_ ? ring(received_ + index) : band(index);
}

void RowResizer::feed(int count) {
  if (along_first_) {
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

// The targets past `count` are written too, with copies of the first row.
void RowResizer::resample_across(const SourceBand& rows, int count, const OutputBand& targets) {
  if (across_) {
    SourceBand full = rows;
    std::fill(full.begin() + count, full.end(), rows[0]);
    resize_row_band(full, *across_, targets);
    return;
  }
  for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
    const auto bytes = static_cast<std::size_t>(row_pixels_) * kChannels;
    if (!mirrored_) {
      std::memcpy(targets[row], rows[row], bytes);
      continue;
    }
    for (std::size_t at = 0; at < bytes; at += kChannels) {
      std::memcpy(targets[row] + at, rows[row] + bytes - kChannels - at, kChannels);
    }
  }
}

int RowResizer::rows_needed(int turn) const {
  if (!along_) {
    return turn + 1;
  }
  const auto index = static_cast<std::size_t>(output_of(turn));
  return along_->first[index] + along_->count[index];
}

void RowResizer::blend(int turn, std::uint8_t* target) {
  const std::size_t bytes =
      static_cast<std::size_t>(along_first_ ? row_pixels_ : across_pixels_) * kChannels;
  if (!along_) {
    std::memcpy(target, ring(turn), bytes);
    return;
  }
  const int index = output_of(turn);
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
    const int index = output_of(emitted_);
    if (transposed_) {
      blend(emitted_, band(0));  // the band's rows are in the ring by now
      write_column(index, band(0));
    } else {
      blend(emitted_, output_row(index));
    }
    ++emitted_;
  }
}

/// Runs the second pass on the blended rows that wait in the band: the last emitted outputs.
void RowResizer::emit_pending() {
  SourceBand rows{};
  OutputBand results{};
  for (int row = 0; row < kBandRows; ++row) {
    rows[static_cast<std::size_t>(row)] = band(row);
    results[static_cast<std::size_t>(row)] = band(kBandRows + row);
  }
  resample_across(rows, pending_, results);
  for (int row = 0; row < pending_; ++row) {
    const int index = output_of(emitted_ - pending_ + row);
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
