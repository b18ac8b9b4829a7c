// Reads, decodes and resizes one input at a time.
#include "pipeline/prepare.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "image/decode.hpp"
#include "image/resize.hpp"
#include "io/digest.hpp"
#include "pipeline/read_file.hpp"

namespace fovea::pipeline {
namespace {

// The maximum size in bytes of the buffer that a worker keeps between files.
constexpr std::size_t kMaxKeptBytes = std::size_t{16} << 20;

// Reads and decodes the inputs of one worker, and reuses its buffers from image to image.
class Preparer {
 public:
  Preparer(const PixelLayout& layout, ContentCheck check)
      : layout_(layout),
        check_(std::move(check)),
        pixels_(layout.preprocessing),
        resized_(static_cast<std::size_t>(image::max_target_pixels(pixels_)) * image::kChannels) {}

  void operator()(Item& item, std::span<std::uint8_t> pixels, Slot& slot, const Limits& limits) {
    slot.width = item.width;  // decode() sets the size of an encoded image
    slot.height = item.height;
    slot.file = item.file;
    slot.sha256 = item.sha256;
    slot.lost_range = item.lost_range;
    switch (item.kind) {
      case Item::Kind::kFailed:
        slot.error = item.error;
        return;
      case Item::Kind::kFile:
        return decode_file(item.name, pixels, slot, limits);
      case Item::Kind::kBytes:
        return decode(item.bytes, pixels, slot, limits);
      case Item::Kind::kEncoded:
        return decode(item.encoded, pixels, slot, limits);
      case Item::Kind::kImage:
        return resize(item, pixels, slot);
      case Item::Kind::kPixels:
        return read_row(item, pixels, slot);
      case Item::Kind::kSynthetic:
        return synthesise(item, pixels, slot);
    }
  }

 private:
  void decode_file(const std::string& path, std::span<std::uint8_t> pixels, Slot& slot,
                   const Limits& limits) {
    // Frees the buffer after a large file, even when decoding throws.
    struct Shrink {
      ~Shrink() {
        if (bytes.capacity() > kMaxKeptBytes) {
          std::vector<std::byte>().swap(bytes);  // assigning {} would keep the memory
        }
      }
      std::vector<std::byte>& bytes;
    };
    const MemoryPool::Lease lease = read_file(path, encoded_, limits, &slot.file);
    const Shrink shrink{encoded_};
    decode(encoded_, pixels, slot, limits);
  }

  void decode(std::span<const std::byte> bytes, std::span<std::uint8_t> pixels, Slot& slot,
              const Limits& limits) {
    if (check_.sum) {
      io::Digest sum;
      sum.add(bytes);
      slot.sha256 = sum.hex();
      slot.is_known = check_.is_known && check_.is_known(slot.sha256);
    }
    if (slot.is_known) {
      return;
    }
    const image::DecodeOptions options = limits.decoding();
    store_pixels(pixels, slot, [&](std::span<std::uint8_t> resized) {
      const image::Resized result = image::decode_resized(bytes, pixels_, options, resized);
      slot.width = result.original.width;
      slot.height = result.original.height;
      slot.lost_range = result.original.lost_range;
      return result.pixels;
    });
  }

  // Reads a row of an array. When that throws, only this input fails.
  void read_row(const Item& item, std::span<std::uint8_t> pixels, Slot& slot) {
    const std::uint64_t offset = item.number * resized_.size();
    if (pixels_.keeps_proportions()) {  // the array stores patches
      return item.array->read(offset, set_grid(item.grid, pixels, slot));
    }
    store_pixels(pixels, slot, [&](std::span<std::uint8_t> row) {
      item.array->read(offset, row);
      return target_size(item);
    });
  }

  void resize(const Item& item, std::span<std::uint8_t> pixels, Slot& slot) {
    store_pixels(pixels, slot, [&](std::span<std::uint8_t> resized) {
      const image::TargetSize size = target_size(item);
      image::resize(image::ImageView(item.width, item.height, item.pixels.data()), size.height,
                    size.width, pixels_.resample, resized.first(byte_size(size)));
      return size;
    });
  }

  void synthesise(const Item& item, std::span<std::uint8_t> pixels, Slot& slot) {
    store_pixels(pixels, slot, [&](std::span<std::uint8_t> resized) {
      const image::TargetSize size = target_size(item);
      fill_synthetic(item.number, resized.first(byte_size(size)));
      return size;
    });
  }

  [[nodiscard]] image::TargetSize target_size(const Item& item) const {
    return image::target_size(pixels_, item.height, item.width);
  }
  [[nodiscard]] static std::size_t byte_size(const image::TargetSize& size) {
    return static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width) *
           image::kChannels;
  }

  // Stores resized pixels: `make` writes them and returns their size. They are cut into patches
  // unless the layout is that of an array's row.
  template <typename Make>
  void store_pixels(std::span<std::uint8_t> pixels, Slot& slot, const Make& make) {
    if (layout_.patch == 0 && !pixels_.keeps_proportions()) {
      (void)make(pixels);
      return;
    }
    const image::TargetSize size = make(std::span(resized_));
    const int patch = pixels_.keeps_proportions() ? pixels_.patch : layout_.patch;
    const std::span<std::uint8_t> used =
        set_grid({.height = size.height / patch, .width = size.width / patch}, pixels, slot);
    image::patchify(std::span(resized_).first(byte_size(size)), size.height, size.width, patch,
                    used);
  }

  // Records the grid of an image for a NaFlex model, and returns the part of `pixels` for its
  // patches. In the row of an array, the rest is filled with zeros.
  std::span<std::uint8_t> set_grid(const PatchGrid& grid, std::span<std::uint8_t> pixels,
                                   Slot& slot) const {
    if (!pixels_.keeps_proportions()) {
      return pixels;
    }
    slot.grid = grid;
    const auto bytes = static_cast<std::size_t>(grid.patches()) *
                       static_cast<std::size_t>(pixels_.patch * pixels_.patch) * image::kChannels;
    if (layout_.patch > 0) {
      slot.bytes = bytes;
    } else {
      std::ranges::fill(pixels.subspan(bytes), std::uint8_t{0});
    }
    return pixels.first(bytes);
  }

  PixelLayout layout_;
  ContentCheck check_;
  Preprocessing pixels_;
  std::vector<std::uint8_t> resized_;
  std::vector<std::byte> encoded_;
};

}  // namespace

std::size_t PixelLayout::image_bytes() const {
  if (preprocessing.keeps_proportions()) {
    return static_cast<std::size_t>(image::max_target_pixels(preprocessing)) * image::kChannels;
  }
  const auto used_side = [this](int side) {
    return static_cast<std::size_t>(patch == 0 ? side : side / patch * patch);
  };
  return used_side(preprocessing.height) * used_side(preprocessing.width) * image::kChannels;
}

Shape PixelLayout::row_shape() const {
  const Preprocessing& p = preprocessing;
  return p.keeps_proportions()
             ? Shape{p.max_patches, std::int64_t{p.patch} * p.patch * image::kChannels}
             : Shape{p.height, p.width, image::kChannels};
}

std::function<Prepare()> make_prepare(const PixelLayout& layout, const ContentCheck& check) {
  return [layout, check]() -> Prepare {
    const auto preparer = std::make_shared<Preparer>(layout, check);
    return [preparer](Item& item, std::span<std::uint8_t> pixels, Slot& slot,
                      const Limits& limits) { (*preparer)(item, pixels, slot, limits); };
  };
}

void fill_synthetic(std::uint64_t number, std::span<std::uint8_t> pixels) {
  std::uint64_t state = number * 0xd1342543de82ef95U + 0x2545f4914f6cdd1dU;
  for (std::size_t offset = 0; offset < pixels.size(); offset += sizeof(state)) {
    // SplitMix64 (Steele, Lea, Flood 2014).
    std::uint64_t mixed = state += 0x9e3779b97f4a7c15U;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    mixed ^= mixed >> 31;
    std::memcpy(pixels.data() + offset, &mixed, std::min(sizeof(mixed), pixels.size() - offset));
  }
}

}  // namespace fovea::pipeline
