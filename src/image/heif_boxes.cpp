// Walks the boxes of a HEIF file (ISO/IEC 23008-12, 14496-12): the primary item, its tiles, its
// auxiliary images, and the codes of each.
#include "image/heif_boxes.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "image/codecs.hpp"
#include "image/heif_codes.hpp"

namespace fovea::image {
namespace {

/// Numbers in sequence, the most significant byte first.
class BoxReader {
 public:
  explicit BoxReader(Bytes bytes) : bytes_(bytes) {}

  [[nodiscard]] bool is_done() const { return bytes_.empty(); }
  [[nodiscard]] Bytes rest() const { return bytes_; }
  Bytes take(std::uint64_t count) {
    if (count > bytes_.size()) {
      fail("HEIF: a box is broken or truncated");
    }
    const Bytes taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    for (const std::byte byte : take(size)) {
      value = value << 8 | std::to_integer<std::uint64_t>(byte);
    }
    return value;
  }
  std::string_view name() {
    const Bytes taken = take(4);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

 private:
  Bytes bytes_;
};

struct Box {
  std::string_view type;
  Bytes content;
};

Box next_box(BoxReader& reader, bool may_be_cut = false) {
  const std::uint64_t size = reader.number(4);
  Box box{reader.name(), {}};
  std::uint64_t left = size == 0 ? reader.rest().size() : size - 8;
  if (size == 1) {
    left = reader.number(8) - 16;
  }
  if (may_be_cut) {
    left = std::min<std::uint64_t>(left, reader.rest().size());
  }
  box.content = reader.take(left);
  return box;
}

struct Extent {
  bool in_idat = false;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // 0: to the end
};

using ItemId = std::uint64_t;

/// More are as bad.
constexpr std::uint64_t kMostPictures = 1U << 20;

struct Item {
  std::string type;
  std::vector<std::uint64_t> properties;  // numbers, the first is 1
  std::vector<ItemId> tiles;              // in "dimg"
  std::vector<ItemId> auxiliary;          // items that name this one in "auxl"
  std::vector<Extent> extents;
};

class HeifReader {
 public:
  HeifReader(Bytes bytes, StopFlag stop) : bytes_(bytes), stop_(stop) {}

  HeifFacts examine() {
    BoxReader top(bytes_);
    bool has_meta = false;
    while (!has_meta && !top.is_done()) {
      stop_.poll();
      const Box box = next_box(top, true);
      if (box.type == "meta") {
        read_meta(BoxReader(box.content));
        has_meta = true;
      }
    }
    if (!has_meta) {
      fail("HEIF: has no description of a still image, or is truncated: {} bytes", bytes_.size());
    }
    HeifFacts facts;
    const Item& primary = item(primary_);
    const Item& coded =
        primary.type == "grid" && !primary.tiles.empty() ? item(primary.tiles[0]) : primary;
    facts.codec = codec_of(coded.type);
    facts.is_limited_gray = is_limited_gray(primary, coded);
    add(facts, primary);
    for (const ItemId id : primary.auxiliary) {
      add(facts, item(id));
    }
    return facts;
  }

 private:
  void read_meta(BoxReader meta) {
    meta.take(4);  // version and flags
    while (!meta.is_done()) {
      stop_.poll();
      const Box box = next_box(meta);
      BoxReader content(box.content);
      if (box.type == "pitm") {
        primary_ = content.number(content.number(4) >> 24 == 0 ? 2 : 4);
      } else if (box.type == "iinf") {
        content.take(content.number(4) >> 24 == 0 ? 2 : 4);
        read_infos(content);
      } else if (box.type == "iref") {
        read_references(content);
      } else if (box.type == "iprp") {
        read_properties(content);
      } else if (box.type == "iloc") {
        read_locations(content);
      } else if (box.type == "idat") {
        idat_ = box.content;
      }
    }
  }

  void read_infos(BoxReader infos) {
    while (!infos.is_done()) {
      stop_.poll();
      BoxReader info(next_box(infos).content);
      const std::uint64_t version = info.number(4) >> 24;
      if (version < 2) {
        continue;
      }
      const ItemId id = info.number(version == 2 ? 2 : 4);
      info.take(2);
      items_[id].type = info.name();
    }
  }

  void read_references(BoxReader references) {
    const std::size_t id_size = references.number(4) >> 24 == 0 ? 2 : 4;
    while (!references.is_done()) {
      const Box box = next_box(references);
      BoxReader content(box.content);
      const ItemId from = content.number(id_size);
      for (std::uint64_t left = content.number(2); left > 0; --left) {
        stop_.poll();
        const ItemId to = content.number(id_size);
        if (box.type == "dimg") {
          items_[from].tiles.push_back(to);
        } else if (box.type == "auxl") {
          items_[to].auxiliary.push_back(from);
        }
      }
    }
  }

  void read_properties(BoxReader properties) {
    while (!properties.is_done()) {
      const Box box = next_box(properties);
      BoxReader content(box.content);
      if (box.type == "ipco") {
        while (!content.is_done()) {
          stop_.poll();
          properties_.push_back(next_box(content));
        }
      } else if (box.type == "ipma") {
        const std::uint64_t head = content.number(4);
        const std::size_t index_size = (head & 1) == 0 ? 1 : 2;
        for (std::uint64_t left = content.number(4); left > 0; --left) {
          Item& item = items_[content.number(head >> 24 == 0 ? 2 : 4)];
          for (std::uint64_t count = content.number(1); count > 0; --count) {
            stop_.poll();
            const std::uint64_t essential = std::uint64_t{1} << (index_size * 8 - 1);
            item.properties.push_back(content.number(index_size) & (essential - 1));
          }
        }
      }
    }
  }

  void read_locations(BoxReader content) {
    const std::uint64_t version = content.number(4) >> 24;
    const std::uint64_t sizes = content.number(2);
    const std::size_t offset_size = sizes >> 12 & 15;
    const std::size_t length_size = sizes >> 8 & 15;
    const std::size_t base_size = sizes >> 4 & 15;
    const std::size_t index_size = version == 0 ? 0 : sizes & 15;
    const std::size_t id_size = version < 2 ? 2 : 4;
    for (std::uint64_t left = content.number(id_size); left > 0; --left) {
      Item& item = items_[content.number(id_size)];
      const std::uint64_t method = version == 0 ? 0 : content.number(2) & 15;
      content.take(2);
      const std::uint64_t base = content.number(base_size);
      for (std::uint64_t count = content.number(2); count > 0; --count) {
        stop_.poll();
        content.take(index_size);
        const std::uint64_t offset = base + content.number(offset_size);
        item.extents.push_back({method == 1, offset, content.number(length_size)});
      }
    }
  }

  [[nodiscard]] const Item& item(ItemId id) const {
    const auto found = items_.find(id);
    if (found == items_.end()) {
      fail("HEIF: refers to an item {} that is not there", id);
    }
    return found->second;
  }

  static HeifCodec codec_of(std::string_view type) {
    if (type == "hvc1") {
      return HeifCodec::kHevc;
    }
    if (type == "av01") {
      return HeifCodec::kAv1;
    }
    fail("HEIF: unsupported image of the kind '{}'; expected HEVC, AV1, or a grid of such tiles",
         type);
  }

  void add(HeifFacts& facts, const Item& added) {
    if (added.type != "grid") {
      facts.work += measure(facts, added);
      return;
    }
    std::map<ItemId, std::uint64_t> work;
    for (const ItemId id : added.tiles) {
      const auto [tile, is_new] = work.try_emplace(id);
      if (is_new) {
        tile->second = measure(facts, item(id));
      }
      facts.work += tile->second;
    }
  }

  /// The item's property of this type whose content begins so.
  [[nodiscard]] const Box* property(const Item& item, std::string_view type,
                                    std::string_view start = "") const {
    for (const std::uint64_t index : item.properties) {
      if (index == 0 || index > properties_.size()) {
        continue;
      }
      const Box& box = properties_[index - 1];
      const std::string_view content(reinterpret_cast<const char*>(box.content.data()),
                                     box.content.size());
      if (box.type == type && content.starts_with(start)) {
        return &box;
      }
    }
    return nullptr;
  }

  /// Looks into a coded image as its decoder will: the parameters in its properties, and its data.
  /// Returns the pixels of all its pictures.
  std::uint64_t measure(HeifFacts& facts, const Item& coded) {
    const bool is_hevc = codec_of(coded.type) == HeifCodec::kHevc;
    CodedImage declared;
    std::size_t length_bytes = 4;
    if (const Box* const box = property(coded, is_hevc ? "hvcC" : "av1C")) {
      BoxReader content(box->content);
      if (is_hevc) {
        declared = read_hvcc(content, length_bytes);
      } else {
        content.take(4);
        declared = examine_av1(content.rest(), stop_);
      }
    }
    std::vector<std::byte> joined;
    const Bytes data = join(coded.extents, joined);
    const CodedImage found =
        is_hevc ? examine_hevc(data, length_bytes, stop_) : examine_av1(data, stop_);
    const std::uint64_t pixels = std::max(declared.pixels, found.pixels);
    facts.largest = std::max(facts.largest, pixels);
    facts.largest_bytes = std::max<std::uint64_t>(facts.largest_bytes, data.size());
    facts.pictures = std::max(facts.pictures, found.pictures);
    return pixels * std::clamp<std::uint64_t>(found.pictures, 1, kMostPictures);
  }

  /// The data of an item, copied into `joined` where it lies in several places.
  Bytes join(std::span<const Extent> extents, std::vector<std::byte>& joined) {
    Bytes data;
    for (const Extent& extent : extents) {
      data = extent_bytes(extent);
      read_ += data.size();
      constexpr std::uint64_t kAnyBytes = std::uint64_t{16} << 20;
      if (read_ > bytes_.size() * std::uint64_t{4} + kAnyBytes) {
        fail("HEIF: the images have more than four times the file's {} bytes", bytes_.size());
      }
      if (extents.size() > 1) {
        joined.insert(joined.end(), data.begin(), data.end());
        data = joined;
      }
    }
    return data;
  }

  [[nodiscard]] bool is_limited_gray(const Item& shown, const Item& coded) const {
    constexpr std::byte kMonochrome{16};
    constexpr std::byte kFullRange{128};
    constexpr std::size_t kRange = 10;  // after the name "nclx" and three numbers of 16 bits
    const Box* const codes = property(coded, "av1C");
    const Box* color = property(shown, "colr", "nclx");
    color = color == nullptr ? property(coded, "colr", "nclx") : color;
    return codes != nullptr && codes->content.size() >= 4 && color != nullptr &&
           (codes->content[2] & kMonochrome) != std::byte{0} && color->content.size() > kRange &&
           (color->content[kRange] & kFullRange) == std::byte{0};
  }

  CodedImage read_hvcc(BoxReader content, std::size_t& length_bytes) {
    content.take(21);
    length_bytes = (content.number(1) & 3) + 1;
    CodedImage most;
    for (std::uint64_t arrays = content.number(1); arrays > 0; --arrays) {
      content.take(1);
      for (std::uint64_t units = content.number(2); units > 0; --units) {
        const Bytes start = content.rest();
        const std::uint64_t size = content.number(2);
        content.take(size);
        const Bytes unit = start.first(static_cast<std::size_t>(size) + 2);
        most.pixels = std::max(most.pixels, examine_hevc(unit, 2, stop_).pixels);
      }
    }
    return most;
  }

  [[nodiscard]] Bytes extent_bytes(const Extent& extent) const {
    const Bytes whole = extent.in_idat ? idat_ : bytes_;
    const std::uint64_t left = extent.offset > whole.size() ? 0 : whole.size() - extent.offset;
    const std::uint64_t size = extent.size == 0 ? left : extent.size;
    if (size > left || left == 0) {
      fail("HEIF: truncated: {} bytes, but the image's data ends at {}", whole.size(),
           extent.offset + extent.size);
    }
    return whole.subspan(static_cast<std::size_t>(extent.offset), static_cast<std::size_t>(size));
  }

  Bytes bytes_;
  StopFlag stop_;
  ItemId primary_ = 0;
  Bytes idat_;
  std::map<ItemId, Item> items_;
  std::vector<Box> properties_;
  std::uint64_t read_ = 0;  // bytes of images
};

}  // namespace

std::string_view heif_name(HeifCodec codec) {
  return codec == HeifCodec::kHevc ? "HEIC" : "AVIF";
}

HeifFacts examine_heif(std::span<const std::byte> bytes, StopFlag stop) {
  return HeifReader(bytes, stop).examine();
}

}  // namespace fovea::image
