// Reads and decodes one input.
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

// The buffer of a larger file must not stay with its worker for the whole job.
constexpr std::size_t kKeptBytes = std::size_t{16} << 20;

// Each worker has one, which keeps its buffers from image to image.
class Preparer {
 public:
  Preparer(const PixelLayout& layout, ContentCheck check)
      : layout_(layout),
        check_(std::move(check)),
        resized_(static_cast<std::size_t>(layout.preprocessing.height) *
                 static_cast<std::size_t>(layout.preprocessing.width) * image::kChannels) {}

  void operator()(Item& item, std::span<std::uint8_t> pixels, Slot& slot, const Limits& limits) {
    slot.width = item.width;  // those of an encoded image are known once it is decoded
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
        return resize(item, pixels);
      case Item::Kind::kPixels:
        return read_row(item, pixels);
      case Item::Kind::kSynthetic:
        return fill_synthetic(item.number, pixels);
    }
  }

 private:
  void decode_file(const std::string& path, std::span<std::uint8_t> pixels, Slot& slot,
                   const Limits& limits) {
    // Frees the memory of a large file, also after a failure.
    struct Shrink {
      ~Shrink() {
        if (bytes.capacity() > kKeptBytes) {
          std::vector<std::byte>().swap(bytes);  // `= {}` would keep the memory
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
      slot.known = check_.is_known && check_.is_known(slot.sha256);
    }
    if (slot.known) {
      return;
    }
    const Preprocessing& p = layout_.preprocessing;
    const image::DecodeOptions options{.stop = limits.stop, .memory = limits.decoded};
    lay_out(pixels, [&](std::span<std::uint8_t> resized) {
      const image::Size size =
          image::decode_resized(bytes, p.height, p.width, p.resample, options, resized);
      slot.width = size.width;
      slot.height = size.height;
      slot.lost_range = size.lost_range;
    });
  }

  // An unreadable row fails as an input of its own; the others are still read.
  void read_row(const Item& item, std::span<std::uint8_t> pixels) {
    lay_out(pixels,
            [&](std::span<std::uint8_t> row) { item.array->read(item.number * row.size(), row); });
  }

  void resize(const Item& item, std::span<std::uint8_t> pixels) {
    const Preprocessing& p = layout_.preprocessing;
    lay_out(pixels, [&](std::span<std::uint8_t> resized) {
      image::resize(image::ImageView(item.width, item.height, item.pixels.data()), p.height,
                    p.width, p.resample, resized);
    });
  }

  // `make` makes the resized pixels, which are cut into patches unless they are requested plain.
  template <typename Make>
  void lay_out(std::span<std::uint8_t> pixels, const Make& make) {
    if (layout_.patch == 0) {
      return make(pixels);
    }
    make(std::span(resized_));
    const Preprocessing& p = layout_.preprocessing;
    image::patchify(resized_, p.height, p.width, layout_.patch, pixels);
  }

  PixelLayout layout_;
  ContentCheck check_;
  std::vector<std::uint8_t> resized_;
  std::vector<std::byte> encoded_;
};

}  // namespace

std::size_t PixelLayout::image_bytes() const {
  const auto whole = [this](int side) {
    return static_cast<std::size_t>(patch == 0 ? side : side / patch * patch);
  };
  return whole(preprocessing.height) * whole(preprocessing.width) * image::kChannels;
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
  for (std::size_t at = 0; at < pixels.size(); at += sizeof(state)) {
    // SplitMix64 (Steele, Lea, Flood 2014).
    std::uint64_t mixed = state += 0x9e3779b97f4a7c15U;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    mixed ^= mixed >> 31;
    std::memcpy(pixels.data() + at, &mixed, std::min(sizeof(mixed), pixels.size() - at));
  }
}

}  // namespace fovea::pipeline
