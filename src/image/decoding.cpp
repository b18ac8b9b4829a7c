// The limits on decoding an image.
#include "image/decoding.hpp"

#include <limits>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "image/resize.hpp"
#include "image/resize_weights.hpp"

namespace fovea::image {
namespace {

/// Requests of at most this many bytes do not count towards the memory limit, so that JPEG photos,
/// which need no more, never wait.
constexpr std::uint64_t kUncounted = std::uint64_t{4} << 20;

std::uint64_t megabytes(std::uint64_t bytes) {
  constexpr std::uint64_t kMegabyte = 1'000'000;
  return (bytes + kMegabyte - 1) / kMegabyte;
}

}  // namespace

std::int64_t checked_max_pixels(std::int64_t max_pixels) {
  if (max_pixels < 0 || max_pixels > kMaxPixelLimit) {
    fail("invalid limit of {} pixels; expected 1 to {}, or 0 for Pillow's limit of {}", max_pixels,
         kMaxPixelLimit, kPillowsMaxPixels);
  }
  return max_pixels == 0 ? kPillowsMaxPixels : max_pixels;
}

void Decoding::check_size(std::string_view format, std::int64_t width, std::int64_t height) const {
  if (width < 1 || height < 1) {
    fail("{}: the header says {}x{} pixels, which is not an image", format, width, height);
  }
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  if (width > kMax || height > kMax || width > options_.max_pixels / height) {
    fail("{}: the header says {}x{} pixels, more than the limit of {}; {} raises it", format, width,
         height, options_.max_pixels, option_words("max-pixels"));
  }
  if (target_ && (width > kMaxSide || height > kMaxSide)) {
    fail("{}: the header says {}x{} pixels; images with a side longer than {} cannot be resized",
         format, width, height, kMaxSide);
  }
}

void Decoding::take_memory(const Header& header, std::uint64_t bytes) {
  if (options_.memory == nullptr) {
    return;
  }
  const Orientation orientation = effective_orientation(header.orientation);
  if (target_) {
    const Size upright = upright_size(header.width, header.height, orientation);
    const TargetSize target = target_size(*target_, upright.height, upright.width);
    bytes += resize_memory(header.width, header.height, orientation, target.height, target.width,
                           target_->resample);
  } else if (!orientation.upright()) {  // for the rotated copy
    bytes += std::uint64_t{3} * static_cast<std::uint64_t>(header.width) *
             static_cast<std::uint64_t>(header.height);
  }
  const std::uint64_t limit = options_.memory->size();
  if (bytes > limit) {
    fail(
        "{}: decoding {}x{} pixels of this kind needs {} MB of memory, more than the {} MB that "
        "decoding may use; {} raises the limit",
        header.format, header.width, header.height, megabytes(bytes), limit / 1'000'000,
        option_words("decode-memory"));
  }
  if (bytes > kUncounted) {
    lease_ = options_.memory->take(bytes, options_.stop);
  }
}

}  // namespace fovea::image
