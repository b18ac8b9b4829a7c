// Reads the start of a lossless WebP stream up to the entropy image, which maps blocks of the image
// to sets of prefix codes (RFC 9649, sections 3.4 to 3.8). Its pixels are counted and not kept: the
// literals give all set numbers, since references only repeat them.
#include "image/webp_tables.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <vector>

namespace fovea::image {
namespace {

constexpr std::size_t kLengthCodes = 24;  // in the green alphabet, after its 256 literals
constexpr std::size_t kDistanceCodes = 40;
constexpr std::size_t kMaxSets = 65536;

class BitStream {
 public:
  explicit BitStream(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint32_t read(int count) {
    fill();
    const auto value = static_cast<std::uint32_t>(bits_ & ((std::uint64_t{1} << count) - 1));
    drop(count);
    return value;
  }
  /// Returns at least 15 of the next bits without consuming them; zeros after the end.
  std::uint32_t peek() {
    fill();
    return static_cast<std::uint32_t>(bits_);
  }
  void drop(int count) {
    bits_ >>= count;
    available_ -= count;
  }
  [[nodiscard]] bool is_over() const { return available_ < 0; }

 private:
  void fill() {
    while (available_ <= 32 && position_ < bytes_.size()) {
      bits_ |= std::to_integer<std::uint64_t>(bytes_[position_++]) << std::max(available_, 0);
      available_ += 8;
    }
  }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::uint64_t bits_ = 0;
  int available_ = 0;  // number of bits in `bits_`; negative after reading past the end
};

/// A prefix code, whose bits are stored in reverse order.
class PrefixCode {
 public:
  /// Builds the code from the lengths of its symbols. Returns false if the code is incomplete.
  bool build(const std::vector<std::uint8_t>& lengths) {
    std::array<std::uint32_t, kMaxLength + 1> count{};
    std::size_t used = 0;
    for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      if (lengths[symbol] > 0) {
        ++count[lengths[symbol]];
        ++used;
        only_ = static_cast<std::uint16_t>(symbol);
      }
    }
    is_single_ = used == 1;
    if (is_single_) {
      return true;
    }
    std::array<std::uint32_t, kMaxLength + 2> next{};
    std::array<std::uint32_t, kMaxLength + 2> place{};
    std::uint32_t code = 0;
    for (std::size_t length = 1; length <= kMaxLength; ++length) {
      code = (code + count[length - 1]) << 1;
      next[length] = first_code_[length] = code;
      place[length + 1] = place[length] + count[length];
      first_place_[length] = place[length];
      count_[length] = count[length];
    }
    if (used == 0 || code + count[kMaxLength] != 1U << kMaxLength) {
      return false;
    }
    symbols_.resize(used);
    table_.assign(std::size_t{1} << kTableBits, Entry{});
    for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      const std::size_t length = lengths[symbol];
      if (length == 0) {
        continue;
      }
      symbols_[place[length]++] = static_cast<std::uint16_t>(symbol);
      const std::uint32_t bits = reversed(next[length]++, length);
      for (std::size_t slot = bits; length <= kTableBits && slot < table_.size();
           slot += std::size_t{1} << length) {
        table_[slot] = {static_cast<std::uint16_t>(symbol), static_cast<std::uint8_t>(length)};
      }
    }
    return true;
  }

  std::size_t read(BitStream& stream) const {
    if (is_single_) {
      return only_;
    }
    std::uint32_t bits = stream.peek();
    const Entry& entry = table_[bits & (table_.size() - 1)];
    if (entry.length > 0) {
      stream.drop(entry.length);
      return entry.symbol;
    }
    std::uint32_t code = 0;
    for (std::size_t length = 1; length <= kMaxLength; ++length, bits >>= 1) {
      code = code << 1 | (bits & 1);
      if (code - first_code_[length] < count_[length]) {
        stream.drop(static_cast<int>(length));
        return symbols_[first_place_[length] + code - first_code_[length]];
      }
    }
    return 0;  // unreachable with a complete code
  }

 private:
  static constexpr std::size_t kMaxLength = 15;
  static constexpr std::size_t kTableBits = 8;
  struct Entry {
    std::uint16_t symbol = 0;
    std::uint8_t length = 0;
  };

  static std::uint32_t reversed(std::uint32_t code, std::size_t length) {
    std::uint32_t result = 0;
    for (std::size_t bit = 0; bit < length; ++bit, code >>= 1) {
      result = result << 1 | (code & 1);
    }
    return result;
  }

  bool is_single_ = false;
  std::uint16_t only_ = 0;
  std::array<std::uint32_t, kMaxLength + 1> first_code_{};
  std::array<std::uint32_t, kMaxLength + 1> first_place_{};
  std::array<std::uint32_t, kMaxLength + 1> count_{};
  std::vector<std::uint16_t> symbols_;  // sorted by length, then by number
  std::vector<Entry> table_;            // indexed by the next bits; length 0 for longer codes
};

class LosslessStart {
 public:
  LosslessStart(std::span<const std::byte> stream, std::uint32_t width, std::uint32_t height,
                StopFlag stop)
      : stream_(stream), width_(width), height_(height), stop_(stop) {}

  std::uint64_t table_bytes() {
    if (!skip_transforms()) {
      return 0;
    }
    const int cache_bits = read_cache_bits();
    std::uint64_t sets = 1;
    if (stream_.read(1) != 0) {
      const auto bits = static_cast<int>(stream_.read(3)) + 2;
      std::bitset<kMaxSets> seen;
      read_image(blocks(width_, bits) * blocks(height_, bits), &seen);
      sets = seen.count();
      // libwebp drops unused sets only if there are more than 1000.
      constexpr std::size_t kMaxUnused = 1000;
      std::size_t last = kMaxUnused;
      while (last > 0 && !seen[last - 1]) {
        --last;
      }
      sets = std::max<std::uint64_t>(sets, last);
    }
    // libwebp 1.2 to 1.6, src/dec/vp8l_dec.c: HTreeGroup, and kTableSize codes of 4 bytes.
    constexpr std::uint64_t kSetBytes = 568;
    constexpr std::uint64_t kFixedCodes = 630 * 3 + 410;
    const std::uint64_t green_codes = 658 + (std::uint64_t{1} << cache_bits);
    return sets * (kSetBytes + 4 * (kFixedCodes + green_codes));
  }

 private:
  static std::uint64_t blocks(std::uint32_t side, int bits) {
    return (std::uint64_t{side} + (1U << bits) - 1) >> bits;
  }

  bool skip_transforms() {
    enum Transform : std::uint32_t { kPredictor, kColor, kSubtractGreen, kPalette };
    // Each of the four transforms may occur once.
    for (int transforms = 0; stream_.read(1) != 0; ++transforms) {
      if (transforms == 4 || stream_.is_over()) {
        return false;
      }
      switch (stream_.read(2)) {
        case kPredictor:
        case kColor: {
          const auto bits = static_cast<int>(stream_.read(3)) + 2;
          if (!read_image(blocks(width_, bits) * blocks(height_, bits), nullptr)) {
            return false;
          }
          break;
        }
        case kPalette: {
          const std::uint32_t colors = stream_.read(8) + 1;
          if (!read_image(colors, nullptr)) {
            return false;
          }
          const int packed = colors > 16 ? 0 : colors > 4 ? 1 : colors > 2 ? 2 : 3;
          width_ = static_cast<std::uint32_t>(blocks(width_, packed));
          break;
        }
        default:
          break;
      }
    }
    return true;
  }

  int read_cache_bits() {
    constexpr std::uint32_t kMaxBits = 11;
    return stream_.read(1) != 0 ? static_cast<int>(std::min(stream_.read(4), kMaxBits)) : 0;
  }

  /// Skips an image of `pixels` pixels. Sets the bits in `sets` for the set numbers that its red
  /// and green channels contain.
  bool read_image(std::uint64_t pixels, std::bitset<kMaxSets>* sets) {
    const int cache_bits = read_cache_bits();
    const std::size_t cached = cache_bits > 0 ? std::size_t{1} << cache_bits : 0;
    enum Alphabet : std::uint8_t { kGreen, kRed, kBlue, kAlpha, kDistance, kAlphabets };
    std::array<PrefixCode, kAlphabets> codes;
    for (std::size_t alphabet = 0; alphabet < codes.size(); ++alphabet) {
      const std::size_t symbols = alphabet == kGreen      ? 256 + kLengthCodes + cached
                                  : alphabet == kDistance ? kDistanceCodes
                                                          : 256;
      if (!read_code(symbols, codes[alphabet])) {
        return false;
      }
    }
    for (std::uint64_t done = 0; done < pixels;) {
      if (done % 1024 == 0) {
        stop_.poll();
      }
      const std::size_t green = codes[kGreen].read(stream_);
      if (green < 256) {
        const std::size_t red = codes[kRed].read(stream_);
        codes[kBlue].read(stream_);
        codes[kAlpha].read(stream_);
        if (sets != nullptr) {
          sets->set(red << 8 | green);
        }
        ++done;
      } else if (green < 256 + kLengthCodes) {
        done += read_distance(green - 256);
        read_distance(codes[kDistance].read(stream_));
      } else {
        if (sets != nullptr) {
          sets->set(0);  // the initial content of the cache
        }
        ++done;
      }
      if (stream_.is_over()) {
        return false;
      }
    }
    return true;
  }

  /// Reads a length or a distance: its prefix code and the extra bits.
  std::uint64_t read_distance(std::size_t code) {
    if (code < 4) {
      return code + 1;
    }
    const auto extra = static_cast<int>((code - 2) >> 1);
    return (std::uint64_t{2 + (code & 1)} << extra) + stream_.read(extra) + 1;
  }

  bool read_code(std::size_t symbols, PrefixCode& code) {
    std::vector<std::uint8_t> lengths(symbols);
    if (stream_.read(1) != 0) {
      const bool two = stream_.read(1) != 0;
      const int bits = stream_.read(1) != 0 ? 8 : 1;
      lengths.at(std::min<std::size_t>(stream_.read(bits), symbols - 1)) = 1;
      if (two) {
        lengths.at(std::min<std::size_t>(stream_.read(8), symbols - 1)) = 1;
      }
      return code.build(lengths);
    }
    static constexpr std::array<std::uint8_t, 19> kOrder = {17, 18, 0, 1,  2,  3,  4,  5,  16, 6,
                                                            7,  8,  9, 10, 11, 12, 13, 14, 15};
    std::vector<std::uint8_t> lengths_of_lengths(kOrder.size());
    const std::size_t length_count = stream_.read(4) + 4;
    for (std::size_t index = 0; index < length_count && index < kOrder.size(); ++index) {
      lengths_of_lengths[kOrder[index]] = static_cast<std::uint8_t>(stream_.read(3));
    }
    PrefixCode length_code;
    if (!length_code.build(lengths_of_lengths)) {
      return false;
    }
    std::size_t left = symbols;
    if (stream_.read(1) != 0) {
      const auto bits = static_cast<int>(stream_.read(3)) * 2 + 2;
      left = stream_.read(bits) + 2;
    }
    std::uint8_t previous = 8;
    for (std::size_t symbol = 0; symbol < symbols && left > 0; --left) {
      const std::size_t length = length_code.read(stream_);
      if (length < 16) {
        lengths[symbol++] = static_cast<std::uint8_t>(length);
        previous = length > 0 ? static_cast<std::uint8_t>(length) : previous;
        continue;
      }
      const std::size_t repeats = length == 16   ? stream_.read(2) + 3
                                  : length == 17 ? stream_.read(3) + 3
                                                 : stream_.read(7) + 11;
      if (symbols - symbol < repeats) {
        return false;
      }
      std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(symbol), repeats,
                  length == 16 ? previous : std::uint8_t{0});
      symbol += repeats;
    }
    return code.build(lengths);
  }

  BitStream stream_;
  std::uint32_t width_;
  std::uint32_t height_;
  StopFlag stop_;
};

}  // namespace

std::uint64_t webp_table_bytes(std::span<const std::byte> stream, std::uint32_t width,
                               std::uint32_t height, StopFlag stop) {
  return LosslessStart(stream, width, height, stop).table_bytes();
}

}  // namespace fovea::image
