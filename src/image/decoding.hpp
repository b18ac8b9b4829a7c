// Decoding: the limits on size and memory, and the stop flag, for one call of decode() or
// decode_resized().
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "core/memory_pool.hpp"
#include "core/stop.hpp"
#include "image/decode.hpp"
#include "image/orientation.hpp"

namespace fovea::image {

/// The properties of an image that are known before memory is allocated for its pixels.
struct Header {
  std::string_view format;
  int width = 0;
  int height = 0;
  Orientation orientation = {};
};

/// The size of a stored image once it is upright.
[[nodiscard]] inline Size upright_size(int width, int height, Orientation orientation) {
  return {.width = orientation.transpose ? height : width,
          .height = orientation.transpose ? width : height};
}

class Decoding {
 public:
  /// `target`: how the pixels are resized, if they are.
  explicit Decoding(const DecodeOptions& options, std::optional<Preprocessing> target = {})
      : options_(options), target_(target) {}

  /// Throws unless 1 <= width * height <= max_pixels, both sides fit an int, and an image that is
  /// to be resized has no side longer than the resize is exact for.
  void check_size(std::string_view format, std::int64_t width, std::int64_t height) const;

  /// Takes the memory for this image: `bytes` for decoder and pixels, and what rotating and
  /// resizing the pixels needs after that. Waits until the memory is free; throws when it exceeds
  /// the pool. To be called once per image, before anything large is allocated.
  void take_memory(const Header& header, std::uint64_t bytes);

  /// The memory that was taken, for a caller who keeps the pixels.
  [[nodiscard]] MemoryPool::Lease memory() { return std::move(lease_); }

  /// Throws Interrupted when the caller wants the decoding to end. Decoders call it per row.
  void poll() const { options_.stop.poll(); }
  [[nodiscard]] StopFlag stop() const { return options_.stop; }
  [[nodiscard]] std::int64_t max_pixels() const { return options_.max_pixels; }
  [[nodiscard]] bool is_resized() const { return target_.has_value(); }

  /// The orientation to apply when the file says `stored`.
  [[nodiscard]] Orientation wanted(Orientation stored) const {
    return options_.apply_orientation ? stored : Orientation{};
  }

 private:
  DecodeOptions options_;
  std::optional<Preprocessing> target_;
  MemoryPool::Lease lease_;  // until the pixels have been resized
};

}  // namespace fovea::image
