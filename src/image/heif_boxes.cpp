// Walks the boxes of a HEIF file (ISO/IEC 23008-12, 14496-12): the primary item, its tiles, its
// auxiliary images, and the codes of each.
#include "image/heif_boxes.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "image/codecs.hpp"
#include "image/heif_codes.hpp"

namespace fovea::image {
namespace {

/// Reads big-endian numbers in sequence.
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
  std::string_view name() { return as_text(take(4)); }

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
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

using ItemId = std::uint32_t;

struct Item {
  std::string type;
  std::vector<std::uint16_t> properties;  // numbers of properties, starting at 1
  std::vector<ItemId> tiles;              // references in "dimg"
  std::vector<ItemId> auxiliary;          // items that refer to this one in "auxl"
  std::vector<Extent> extents;
  bool is_located = false;
  std::uint64_t method = 0;  // 0: the extents are in the file, 1: in "idat"
};

/// The work of libheif to decode an item once.
struct Cost {
  std::uint64_t pixels = 0;
  std::uint64_t bytes = 0;

  /// The value at which both numbers saturate, so that a sum of two fits 64 bits.
  static constexpr std::uint64_t kSaturated = std::uint64_t{1} << 62;

  void operator+=(const Cost& other) {
    pixels = std::min(kSaturated, pixels + std::min(kSaturated, other.pixels));
    bytes = std::min(kSaturated, bytes + std::min(kSaturated, other.bytes));
  }
};

class HeifReader {
 public:
  HeifReader(Bytes bytes, StopFlag stop) : bytes_(bytes), stop_(stop) {}

  HeifFacts examine() {
    BoxReader top(bytes_);
    constexpr std::size_t kHeader = 8;
    while (top.rest().size() >= kHeader) {  // trailing bytes are ignored
      stop_.poll();
      count_entry();
      const Box box = next_box(top, true);
      if (box.type == "mini") {
        fail("HEIF: unsupported box 'mini'; expected a description in the box 'meta'");
      }
      if (box.type == "meta") {
        check_first(box.type);
        read_meta(BoxReader(box.content));
      }
    }
    if (seen_.empty()) {
      fail("HEIF: the description of a still image is missing or truncated: {} bytes",
           bytes_.size());
    }
    HeifFacts facts;
    const Item& primary = item(primary_);
    const Item& coded =
        primary.type == "grid" && !primary.tiles.empty() ? item(primary.tiles[0]) : primary;
    facts.codec = item_codec(coded.type);
    facts.is_limited_gray = is_limited_gray(primary, coded);
    const Box* const angle = property(primary, "irot");
    facts.is_turned = property(primary, "imir") != nullptr ||
                      (angle != nullptr && !angle->content.empty() &&
                       (angle->content[0] & std::byte{3}) != std::byte{0});
    facts.work = item_cost(facts, primary_).pixels;
    return facts;
  }

 private:
  /// Refuses a second box of a type, since versions of libheif differ in which of them they use.
  void check_first(std::string_view type) {
    if (std::ranges::find(seen_, type) != seen_.end()) {
      fail("HEIF: there is more than one box '{}'", type);
    }
    seen_.push_back(type);
  }

  /// Counts an entry of a box against a limit, which bounds the memory: an entry takes more memory
  /// than its bytes in the file.
  void count_entry() {
    constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 20;
    if (++entries_ > kMaxEntries) {
      fail("HEIF: there are more than {} boxes, properties, references and locations", kMaxEntries);
    }
  }

  Item& listed_item(std::uint64_t id) {
    constexpr std::size_t kMaxItems = 65536;
    Item& item = items_[static_cast<ItemId>(id)];
    if (items_.size() > kMaxItems) {
      fail("HEIF: there are more than {} items", kMaxItems);
    }
    return item;
  }

  void read_meta(BoxReader meta) {
    meta.take(4);  // version and flags
    while (!meta.is_done()) {
      stop_.poll();
      const Box box = next_box(meta);
      BoxReader content(box.content);
      constexpr std::string_view kOnce[] = {"pitm", "iinf", "iref", "iprp", "iloc", "idat"};
      if (std::ranges::find(kOnce, box.type) != std::end(kOnce)) {
        check_first(box.type);
      }
      if (box.type == "pitm") {
        primary_ = static_cast<ItemId>(content.number(content.number(4) >> 24 == 0 ? 2 : 4));
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
      const Box box = next_box(infos);
      BoxReader info(box.content);
      const std::uint64_t version = box.type == "infe" ? info.number(4) >> 24 : 0;
      if (version < 2) {
        continue;
      }
      const std::uint64_t id = info.number(version == 2 ? 2 : 4);
      Item& item = listed_item(id);
      if (!item.type.empty()) {
        fail("HEIF: item {} is described twice", id);
      }
      info.take(2);
      item.type = info.name();
    }
  }

  void read_references(BoxReader references) {
    const std::size_t id_size = references.number(4) >> 24 == 0 ? 2 : 4;
    while (!references.is_done()) {
      const Box box = next_box(references);
      BoxReader content(box.content);
      const std::uint64_t from = content.number(id_size);
      for (std::uint64_t left = content.number(2); left > 0; --left) {
        stop_.poll();
        count_entry();
        const std::uint64_t to = content.number(id_size);
        if (box.type == "dimg") {
          listed_item(from).tiles.push_back(static_cast<ItemId>(to));
        } else if (box.type == "auxl") {
          listed_item(to).auxiliary.push_back(static_cast<ItemId>(from));
        }
      }
      if (!content.is_done()) {  // libheif would read the rest as another reference
        fail("HEIF: the box '{}' is longer than its references", box.type);
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
          count_entry();
          properties_.push_back(next_box(content));
        }
      } else if (box.type == "ipma") {
        const std::uint64_t head = content.number(4);
        const std::size_t index_size = (head & 1) == 0 ? 1 : 2;
        for (std::uint64_t left = content.number(4); left > 0; --left) {
          Item& item = listed_item(content.number(head >> 24 == 0 ? 2 : 4));
          for (std::uint64_t count = content.number(1); count > 0; --count) {
            stop_.poll();
            count_entry();
            const std::uint64_t essential = std::uint64_t{1} << (index_size * 8 - 1);
            const std::uint64_t number = content.number(index_size) & (essential - 1);
            item.properties.push_back(static_cast<std::uint16_t>(number));
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
    for (const std::size_t size : {offset_size, length_size, base_size, index_size}) {
      if (size != 0 && size != 4 && size != 8) {
        fail("HEIF: a number in the box 'iloc' has {} bytes; expected 0, 4 or 8", size);
      }
    }
    if (version == 1 && index_size != 0) {  // old versions of libheif ignore it
      fail("HEIF: unsupported index in the box 'iloc' of version 1");
    }
    const std::size_t id_size = version < 2 ? 2 : 4;
    for (std::uint64_t left = content.number(id_size); left > 0; --left) {
      stop_.poll();
      const std::uint64_t id = content.number(id_size);
      Item& item = listed_item(id);
      if (item.is_located) {
        fail("HEIF: the location of item {} is given twice", id);
      }
      item.is_located = true;
      item.method = version == 0 ? 0 : content.number(2) & 15;
      content.take(2);
      const std::uint64_t base = content.number(base_size);
      const std::uint64_t count = content.number(2);
      if (count > 1 && offset_size + length_size == 0) {
        fail("HEIF: item {} has {} extents at one location", id, count);
      }
      for (std::uint64_t part = 0; part < count; ++part) {
        stop_.poll();
        count_entry();
        content.take(index_size);
        const std::uint64_t offset = base + content.number(offset_size);
        item.extents.push_back({offset, content.number(length_size)});
      }
    }
  }

  [[nodiscard]] const Item& item(ItemId id) const {
    const auto found = items_.find(id);
    if (found == items_.end()) {
      fail("HEIF: item {} is referred to, but missing", id);
    }
    return found->second;
  }

  static HeifCodec item_codec(std::string_view type) {
    if (type == "hvc1") {
      return HeifCodec::kHevc;
    }
    if (type == "av01") {
      return HeifCodec::kAv1;
    }
    fail("HEIF: unsupported image of the kind '{}'; expected HEVC, AV1, or a grid of such tiles",
         type);
  }

  /// Returns the cost of an item with its auxiliary images and tiles; repeated tiles count
  /// repeatedly.
  Cost item_cost(HeifFacts& facts, ItemId id, int depth = 0) {
    constexpr int kMaxDepth = 4;
    if (const auto known = costs_.find(id); known != costs_.end()) {
      return known->second;
    }
    if (depth > kMaxDepth) {
      fail("HEIF: item {} is nested too deep in other images", id);
    }
    Cost cost;
    const auto add = [&](ItemId part) {
      stop_.poll();
      cost += item_cost(facts, part, depth + 1);
      check_bytes(cost.bytes);
    };
    const Item& decoded_item = item(id);
    if (decoded_item.type == "grid") {
      for (const ItemId tile : decoded_item.tiles) {
        static_cast<void>(item_codec(item(tile).type));  // refuses grids of grids
        add(tile);
      }
    } else {
      cost = measure(facts, decoded_item);
    }
    std::ranges::for_each(decoded_item.auxiliary, add);
    return costs_[id] = cost;
  }

  /// Limits the encoded bytes in total, since tiles can share their data and decoder parameters.
  void check_bytes(std::uint64_t read) const {
    constexpr std::uint64_t kExtraBytes = std::uint64_t{16} << 20;
    if (read > bytes_.size() * std::uint64_t{4} + kExtraBytes) {
      fail("HEIF: the images have more than four times the file's {} bytes", bytes_.size());
    }
  }

  /// Returns the item's property of this type whose content begins with `start`.
  [[nodiscard]] const Box* property(const Item& item, std::string_view type,
                                    std::string_view start = "") const {
    for (const std::size_t index : item.properties) {
      if (index == 0 || index > properties_.size()) {
        continue;
      }
      const Box& box = properties_[index - 1];
      if (box.type == type && as_text(box.content).starts_with(start)) {
        return &box;
      }
    }
    return nullptr;
  }

  /// Returns the cost of a coded image, read from the decoder parameters in its properties and from
  /// its data.
  Cost measure(HeifFacts& facts, const Item& coded) {
    const bool is_hevc = item_codec(coded.type) == HeifCodec::kHevc;
    std::vector<std::byte> joined;
    const Bytes data = join(coded, joined);
    std::uint64_t bytes = data.size();
    CodedImage declared;
    std::size_t length_bytes = 4;
    if (const Box* const box = property(coded, is_hevc ? "hvcC" : "av1C")) {
      bytes += box->content.size();
      BoxReader content(box->content);
      if (is_hevc) {
        declared = read_hvcc(content, length_bytes);
      } else {
        content.take(4);
        declared = examine_av1(content.rest(), stop_);
      }
    }
    const CodedImage found =
        is_hevc ? examine_hevc(data, length_bytes, stop_) : examine_av1(data, stop_);
    const std::uint64_t pixels = std::max(declared.pixels, found.pixels);
    const std::uint64_t pictures = std::max<std::uint64_t>(found.pictures, 1);
    facts.largest = std::max(facts.largest, pixels);
    facts.largest_bytes = std::max(facts.largest_bytes, bytes);
    facts.pictures = std::max(facts.pictures, found.pictures);
    return {pixels > Cost::kSaturated / pictures ? Cost::kSaturated : pixels * pictures, bytes};
  }

  /// Returns the data of an item; data in several extents is copied into `joined`.
  Bytes join(const Item& source, std::vector<std::byte>& joined) {
    if (source.extents.empty()) {
      fail("HEIF: the data is missing for an image of the kind '{}'", source.type);
    }
    if (source.method > 1) {
      fail("HEIF: unsupported location {} of an image's data; expected the file or the box 'idat'",
           source.method);
    }
    Bytes data;
    std::uint64_t read = 0;
    for (const Extent& extent : source.extents) {
      data = extent_bytes(extent, source.method == 1 ? idat_ : bytes_);
      read += data.size();
      check_bytes(read);
      if (source.extents.size() > 1) {
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
    CodedImage largest;
    for (std::uint64_t arrays = content.number(1); arrays > 0; --arrays) {
      content.take(1);
      for (std::uint64_t units = content.number(2); units > 0; --units) {
        const Bytes start = content.rest();
        const std::uint64_t size = content.number(2);
        content.take(size);
        const Bytes unit = start.first(static_cast<std::size_t>(size) + 2);
        largest.pixels = std::max(largest.pixels, examine_hevc(unit, 2, stop_).pixels);
      }
    }
    return largest;
  }

  [[nodiscard]] static Bytes extent_bytes(const Extent& extent, Bytes whole) {
    const std::uint64_t left = extent.offset > whole.size() ? 0 : whole.size() - extent.offset;
    if (extent.size == 0) {  // libheif reads nothing, but other readers all remaining bytes
      fail("HEIF: the length of an image's data is missing");
    }
    if (extent.size > left) {
      fail("HEIF: truncated: {} bytes, but the image's data of {} bytes begins at {}", whole.size(),
           extent.size, extent.offset);
    }
    return whole.subspan(static_cast<std::size_t>(extent.offset),
                         static_cast<std::size_t>(extent.size));
  }

  Bytes bytes_;
  StopFlag stop_;
  ItemId primary_ = 0;
  Bytes idat_;
  std::map<ItemId, Item> items_;
  std::vector<Box> properties_;
  std::vector<std::string_view> seen_;  // boxes seen so far that may occur only once
  std::uint64_t entries_ = 0;
  std::map<ItemId, Cost> costs_;
};

}  // namespace

std::string_view heif_name(HeifCodec codec) {
  return codec == HeifCodec::kHevc ? "HEIC" : "AVIF";
}

HeifFacts examine_heif(std::span<const std::byte> bytes, StopFlag stop) {
  return HeifReader(bytes, stop).examine();
}

}  // namespace fovea::image
