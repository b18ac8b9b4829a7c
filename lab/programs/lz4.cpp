// Decompressor of LZ4 blocks, in which nvcc 12 stores the code in programs.
#include "lab/programs/lz4.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace fovea::programs {
namespace {

constexpr std::size_t kMinMatch = 4;     // a copy has as many bytes at least
constexpr std::size_t kLongLength = 15;  // a length in the token that more bytes follow

// Reads a block from its beginning to its end.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) {
      fail("LZ4 data ends too early");
    }
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::size_t take_byte() { return std::to_integer<std::size_t>(take(1).front()); }
  // Reads the bytes that extend a length of the token.
  std::size_t take_length(std::size_t length) {
    if (length == kLongLength) {
      std::size_t more = 255;
      while (more == 255) {
        more = take_byte();
        length += more;
      }
    }
    return length;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace

void unpack_lz4(std::span<const std::byte> packed, std::span<std::byte> to) {
  Reader reader(packed);
  std::size_t size = 0;
  const auto check_room = [&](std::size_t count) {
    if (count > to.size() - size) {
      fail("LZ4 data is longer than the {} bytes that its header announces", to.size());
    }
  };
  while (!reader.is_at_end()) {
    const std::size_t token = reader.take_byte();
    const std::span<const std::byte> literals = reader.take(reader.take_length(token >> 4U));
    check_room(literals.size());
    std::ranges::copy(literals, to.subspan(size).begin());
    size += literals.size();
    if (reader.is_at_end()) {  // the last sequence has literals alone
      break;
    }
    const std::size_t low = reader.take_byte();
    const std::size_t distance = low | reader.take_byte() << 8U;
    if (distance == 0 || distance > size) {
      fail("LZ4 data copies from {} bytes before its byte {}", distance, size);
    }
    const std::size_t length = reader.take_length(token & 15U) + kMinMatch;
    check_room(length);
    for (std::size_t i = 0; i < length; ++i, ++size) {  // the copy may overlap its source
      to[size] = to[size - distance];
    }
  }
  if (size != to.size()) {
    fail("LZ4 data has {} bytes, but its header announces {}", size, to.size());
  }
}

}  // namespace fovea::programs
