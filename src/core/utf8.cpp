// Checks UTF-8 sequence by sequence.
#include "core/utf8.hpp"

namespace fovea {

// Ranges of the second byte: The Unicode Standard, version 15, table 3-7.
std::size_t utf8_length(std::string_view bytes) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(bytes[index]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    low = lead == 0xe0 ? 0xa0 : low;
    high = lead == 0xed ? 0x9f : high;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    low = lead == 0xf0 ? 0x90 : low;
    high = lead == 0xf4 ? 0x8f : high;
  } else {
    return 0;
  }
  if (bytes.size() < length || byte(1) < low || byte(1) > high) {
    return 0;
  }
  for (std::size_t index = 2; index < length; ++index) {
    if (byte(index) < 0x80 || byte(index) > 0xbf) {
      return 0;
    }
  }
  return length;
}

std::optional<std::size_t> utf8_characters(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      return std::nullopt;
    }
    text.remove_prefix(length);
  }
  return count;
}

}  // namespace fovea
