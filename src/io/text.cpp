// UTF-8 validation, reversible escapes, JSON string literals.
#include "io/text.hpp"

#include <cstddef>

#include <fmt/format.h>

#include "core/error.hpp"

namespace fovea::io {
namespace {

// Length of the well-formed UTF-8 sequence at the front of `bytes`, or 0 if there is none.
// Ranges of the second byte: Unicode 15, table 3-7.
std::size_t utf8_length(std::string_view bytes) {
  const auto at = [&](std::size_t index) { return static_cast<unsigned char>(bytes[index]); };
  const unsigned char lead = at(0);
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
  if (bytes.size() < length || at(1) < low || at(1) > high) {
    return 0;
  }
  for (std::size_t index = 2; index < length; ++index) {
    if (at(index) < 0x80 || at(index) > 0xbf) {
      return 0;
    }
  }
  return length;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return -1;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) {
      return false;
    }
    bytes.remove_prefix(length);
  }
  return true;
}

std::string escape(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes.front()));
    } else if (bytes.front() == '\\') {
      text += "\\\\";
    } else {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::string unescape(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      bytes += text[at];
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == '\\') {
      bytes += '\\';
      at += 1;
      continue;
    }
    const int high = at + 3 < text.size() && text[at + 1] == 'x' ? hex_digit(text[at + 2]) : -1;
    const int low = high >= 0 ? hex_digit(text[at + 3]) : -1;
    if (low < 0) {
      fail("malformed escape at byte {} of \"{}\": expected \\\\ or \\xHH", at, text);
    }
    bytes += static_cast<char>(high * 16 + low);
    at += 3;
  }
  return bytes;
}

std::string json_quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\r':
        quoted += "\\r";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          quoted += c;
        }
    }
  }
  return quoted + "\"";
}

}  // namespace fovea::io
