// Batch: inputs that pass together from the decode workers through the encoder to the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/host_buffer.hpp"
#include "fovea/preprocessing.hpp"
#include "io/descriptor.hpp"

namespace fovea::pipeline {

/// One input of a batch.
struct Slot {
  std::string name;
  int width = 0;  // of the original image after orientation
  int height = 0;
  bool lost_range = false;                 // as in image::Image
  std::size_t bytes = 0;                   // the size of the pixels
  PatchGrid grid = {};                     // the patches of the image, for a NaFlex model
  std::optional<io::FileStamp> file = {};  // as in IndexLine
  std::string sha256 = {};                 // as in IndexLine
  bool is_known = false;  // not decoded, since ContentCheck::is_known() accepted its contents
  std::string error;      // when not empty, the input has failed and has no row

  [[nodiscard]] bool failed() const { return !error.empty(); }
  /// Returns whether the slot has pixels to encode.
  [[nodiscard]] bool has_pixels() const { return !failed() && !is_known; }
};

/// Consecutive inputs. The boundaries of batches depend only on the number of inputs, including
/// failed ones, so that a resumed job computes the same batches as an uninterrupted one.
struct Batch {
  HostBuffer pixels;                  // one part per slot; compact() removes the gaps
  AlignedBuffer<std::byte> results;   // [capacity] results of Encode, one per slot with pixels
  std::vector<std::byte> converted;   // the results in the dtype of the output
  std::span<const std::byte> stored;  // rows for the output: `converted`, `results`, or pixels
  std::vector<Slot> slots;            // [capacity]; the first `count` are in use
  std::size_t count = 0;
  std::size_t pending = 0;       // slots that are still being decoded
  std::size_t rows = 0;          // slots with pixels; set by compact()
  std::size_t bytes = 0;         // the size of the packed pixels; set by compact()
  std::vector<PatchGrid> grids;  // one per packed image; set by compact()
  bool sealed = false;           // no more inputs will be added
  bool broken = false;           // the job failed while an input of this batch was prepared
  std::uint64_t names = 0;       // hash over the names of all inputs up to the last of this batch

  /// Moves the images to the start of `pixels` without gaps, and counts them. `slot_bytes`: the
  /// distance between slots.
  void compact(std::size_t slot_bytes);
  /// Returns the images packed by compact().
  [[nodiscard]] std::span<const std::uint8_t> packed() const { return pixels.span().first(bytes); }
  /// Returns the first `images` of the packed images.
  [[nodiscard]] std::span<const std::uint8_t> packed(std::size_t images) const;
};

}  // namespace fovea::pipeline
