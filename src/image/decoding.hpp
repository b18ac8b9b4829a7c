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

/// Returns the size of a stored image after rotating it upright.
[[nodiscard]] inline Size upright_size(int width, int height, Orientation orientation) {
  return {.width = orientation.transpose ? height : width,
          .height = orientation.transpose ? width : height};
}

class Decoding {
 public:
  /// `target`: how the pixels are resized, if they are.
  explicit Decoding(const DecodeOptions& options, std::optional<Preprocessing> target = {})
      : options_(options), target_(target) {}

  /// Throws unless 1 <= width * height <= max_pixels and both sides fit an int. If the image is to
  /// be resized, its sides must not exceed kMaxSide, up to which the resize is exact.
  void check_size(std::string_view format, std::int64_t width, std::int64_t height) const;

  /// Reserves the memory for this image: `bytes` for the decoder and the pixels, and the memory for
  /// rotating and resizing them. Waits until the memory is free; throws when it exceeds the pool.
  /// Must be called once per image, before any large allocation.
  void take_memory(const Header& header, std::uint64_t bytes);

  /// Returns the lease of the memory, for a caller who keeps the pixels.
  [[nodiscard]] MemoryPool::Lease memory() { return std::move(lease_); }

  /// Throws Interrupted if the stop flag is set. Decoders call this for each row.
  void poll() const { options_.stop.poll(); }
  [[nodiscard]] StopFlag stop() const { return options_.stop; }
  [[nodiscard]] std::int64_t max_pixels() const { return options_.max_pixels; }
  [[nodiscard]] bool is_resized() const { return target_.has_value(); }

  /// Returns the orientation to apply to an image whose file specifies `stored`.
  [[nodiscard]] Orientation effective_orientation(Orientation stored) const {
    return options_.apply_orientation ? stored : Orientation{};
  }

 private:
  DecodeOptions options_;
  std::optional<Preprocessing> target_;
  MemoryPool::Lease lease_;  // memory() moves it out
};

}  // namespace fovea::image
