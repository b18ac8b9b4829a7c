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
  int width = 0;  // of the original image, oriented
  int height = 0;
  bool lost_range = false;  // see image::Image
  std::size_t bytes = 0;    // of its pixels
  PatchGrid grid = {};      // of a NaFlex model, whose images have sizes of their own
  std::optional<io::FileStamp> file = {};  // see IndexLine
  std::string sha256 = {};                 // see IndexLine
  bool known = false;  // ContentCheck knows what is in the file, so it was not decoded
  std::string error;   // when not empty, this input has no row

  [[nodiscard]] bool failed() const { return !error.empty(); }
  /// Whether the slot has pixels to encode.
  [[nodiscard]] bool has_pixels() const { return !failed() && !known; }
};

/// Consecutive inputs. Batches are cut by inputs, failed ones included, never by time or by
/// success, so that a resumed job computes the same batches as an uninterrupted one.
struct Batch {
  HostBuffer pixels;                  // a part per slot; one image after the other once compact
  AlignedBuffer<std::byte> results;   // [capacity] of what Encode gives; one per slot with pixels
  std::vector<std::byte> converted;   // embeddings as they are stored
  std::span<const std::byte> stored;  // rows for the output: `converted`, `results`, or pixels
  std::vector<Slot> slots;            // capacity of them; `count` in use
  std::size_t count = 0;
  std::size_t pending = 0;       // of those, still being decoded
  std::size_t rows = 0;          // of those, with pixels; set by compact()
  std::size_t bytes = 0;         // of their pixels, likewise
  std::vector<PatchGrid> grids;  // of those, likewise
  bool sealed = false;           // no more inputs will be added
  bool broken = false;           // a worker ended the job while it prepared one of these
  std::uint64_t names = 0;       // hash over the names of all inputs up to the last of this batch

  /// Packs the images without gaps at the start of `pixels`, and counts them. `slot_bytes`: the
  /// distance between slots.
  void compact(std::size_t slot_bytes);
  /// Returns the images packed by compact().
  [[nodiscard]] std::span<const std::uint8_t> packed() const { return pixels.span().first(bytes); }
  /// Returns the first `images` of the packed images.
  [[nodiscard]] std::span<const std::uint8_t> packed(std::size_t images) const;
};

}  // namespace fovea::pipeline
