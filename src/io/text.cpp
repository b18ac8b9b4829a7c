// Escapes text for index files, terminals and JSON.
#include "io/text.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/utf8.hpp"

namespace fovea::io {
namespace {

// Decodes the code point of a well-formed UTF-8 sequence.
char32_t decode(std::string_view sequence) {
  constexpr unsigned kPayload = 0x3f;
  const auto lead = static_cast<unsigned char>(sequence.front());
  constexpr unsigned char kLeadPayload[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t character = lead & kLeadPayload[sequence.size()];
  for (const char c : sequence.substr(1)) {
    character = character << 6 | (static_cast<unsigned char>(c) & kPayload);
  }
  return character;
}

// Whether a terminal would interpret the character, or display it invisibly or out of order.
bool is_deceptive(char32_t character) {
  const auto is_between = [&](char32_t first, char32_t last) {
    return character >= first && character <= last;
  };
  return character < 0x20 || is_between(0x7f, 0x9f) ||         // C0, DEL and C1 controls
         character == 0x061c || is_between(0x200e, 0x200f) ||  // directional marks
         is_between(0x2028, 0x202e) ||                // line separators, directional embeddings
         is_between(0x2060, 0x2069) ||                // invisible characters, isolates
         character == 0x200b || character == 0xfeff;  // zero-width characters
}

using CharAndText = std::pair<char, std::string_view>;
constexpr CharAndText kJsonEscapes[] = {
    {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}};

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
  return utf8_characters(bytes).has_value();
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
  for (std::size_t position = 0; position < text.size(); ++position) {
    if (text[position] != '\\') {
      bytes += text[position];
      continue;
    }
    if (position + 1 < text.size() && text[position + 1] == '\\') {
      bytes += '\\';
      position += 1;
      continue;
    }
    const int high = position + 3 < text.size() && text[position + 1] == 'x'
                         ? hex_digit(text[position + 2])
                         : -1;
    const int low = high >= 0 ? hex_digit(text[position + 3]) : -1;
    if (low < 0) {
      fail("malformed escape at byte {} of \"{}\": expected \\\\ or \\xHH", position, text);
    }
    bytes += static_cast<char>(high * 16 + low);
    position += 3;
  }
  return bytes;
}

std::string printable(std::string_view text, std::size_t max_characters) {
  const auto first_sequence = [](std::string_view remaining) {
    return remaining.substr(0, std::max<std::size_t>(utf8_length(remaining), 1));
  };
  std::size_t count = 0;
  for (std::string_view remaining = text; !remaining.empty(); ++count) {
    remaining.remove_prefix(first_sequence(remaining).size());
  }
  const std::size_t omitted = count > max_characters ? count - max_characters : 0;
  const std::size_t first_omitted = max_characters / 2;
  std::string result;
  for (std::size_t index = 0; !text.empty(); ++index) {
    const std::string_view sequence = first_sequence(text);
    text.remove_prefix(sequence.size());
    if (omitted > 0 && index == first_omitted) {
      result += " ... ";
    }
    if (index >= first_omitted && index < first_omitted + omitted) {
      continue;
    }
    const auto byte = static_cast<unsigned char>(sequence.front());
    const bool is_character = utf8_length(sequence) > 0;
    if (is_character && !is_deceptive(decode(sequence))) {
      result += sequence;
    } else if (sequence.size() == 1) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(decode(sequence)));
    }
  }
  return result;
}

std::string printable_json(std::string_view json) {
  std::string result;
  result.reserve(json.size());
  while (!json.empty()) {
    const std::string_view sequence = json.substr(0, std::max<std::size_t>(utf8_length(json), 1));
    json.remove_prefix(sequence.size());
    const char32_t character = utf8_length(sequence) == 0 ? U'\ufffd' : decode(sequence);
    if (character != U'\n' && is_deceptive(character)) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(character));
    } else {
      result += sequence;
    }
  }
  return result;
}

std::string json_quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (const auto* escape = std::ranges::find(kJsonEscapes, c, &CharAndText::first);
        escape != std::end(kJsonEscapes)) {
      quoted += escape->second;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace fovea::io
