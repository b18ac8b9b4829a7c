// Lower-cases text, and removes punctuation and superfluous white space.
#include "text/clean.hpp"

#include <algorithm>
#include <cstdint>

#include "core/utf8.hpp"
#include "text/case_tables.hpp"

namespace fovea::text {
namespace {

constexpr char32_t kCapitalSigma = 0x3a3;
constexpr char32_t kFinalSigma = 0x3c2;
constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kCombiningDot = 0x307;

/// Decodes a well-formed sequence to its code point.
char32_t decode(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 1) {
    return lead;
  }
  char32_t code = lead & (0x7fU >> sequence.size());
  for (const char byte : sequence.substr(1)) {
    code = (code << 6U) | (static_cast<unsigned char>(byte) & 0x3fU);
  }
  return code;
}

void append(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  const unsigned continuation_bytes = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  // A 1 bit for each byte of the sequence, then a 0 bit.
  const unsigned lead_mark = (0xf00U >> (continuation_bytes + 1)) & 0xffU;
  text += static_cast<char>(lead_mark | (code >> (6 * continuation_bytes)));
  for (unsigned remaining = continuation_bytes; remaining > 0; --remaining) {
    text += static_cast<char>(0x80U | ((code >> (6 * (remaining - 1))) & 0x3fU));
  }
}

/// Calls `use(sequence, begin)` for each character of a text.
template <typename Use>
void for_each_character(std::string_view text, Use use) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string_view sequence = text.substr(begin, utf8_length(text.substr(begin)));
    use(sequence, begin);
    begin += sequence.size();
  }
}

/// Returns the range that contains `code`, or null. The ranges are sorted by their last characters.
template <typename Range>
const Range* find_range(std::span<const Range> ranges, char32_t code) {
  const auto found = std::ranges::lower_bound(ranges, code, {}, &Range::last);
  return found != ranges.end() && found->first <= code ? &*found : nullptr;
}

void append_lower(std::string& out, std::string_view sequence) {
  const char32_t code = decode(sequence);
  if (code == kCapitalIWithDot) {
    out += 'i';
    append(out, kCombiningDot);
    return;
  }
  const LowerRange* range = find_range(lower_ranges(), code);
  if (range == nullptr || (code - range->first) % range->step != 0) {
    out += sequence;
    return;
  }
  append(out, static_cast<char32_t>(static_cast<std::int64_t>(code) + range->distance));
}

/// Whether a sigma between the two parts of a text ends a word: skipping Case_Ignorable characters,
/// the one before it is Cased and the one after it is not.
bool ends_word(std::string_view before, std::string_view after) {
  const auto kind = [](std::string_view sequence) {
    return find_range(sigma_ranges(), decode(sequence));
  };
  const SigmaRange* found = nullptr;
  const auto is_ignorable = [&] { return found->kind == SigmaRange::Kind::kIgnorable; };
  while (!before.empty()) {
    std::size_t begin = before.size() - 1;
    while ((static_cast<unsigned char>(before[begin]) & 0xc0U) == 0x80U) {
      --begin;
    }
    found = kind(before.substr(begin));
    if (found == nullptr || !is_ignorable()) {
      break;
    }
    before = before.substr(0, begin);
  }
  if (before.empty() || found == nullptr) {
    return false;
  }
  while (!after.empty()) {
    const std::size_t length = utf8_length(after);
    found = kind(after.substr(0, length));
    if (found == nullptr || !is_ignorable()) {
      return found == nullptr;
    }
    after.remove_prefix(length);
  }
  return true;
}

bool is_space(char32_t code) {
  return (code >= 0x9 && code <= 0xd) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
         code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_punctuation(char byte) {
  return (byte >= '!' && byte <= '/') || (byte >= ':' && byte <= '@') ||
         (byte >= '[' && byte <= '`') || (byte >= '{' && byte <= '~');
}

std::string lower_text(std::string_view text, bool final_sigmas) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](std::string_view sequence, std::size_t begin) {
    if (final_sigmas && decode(sequence) == kCapitalSigma &&
        ends_word(text.substr(0, begin), text.substr(begin + sequence.size()))) {
      append(out, kFinalSigma);
    } else {
      append_lower(out, sequence);
    }
  });
  return out;
}

}  // namespace

std::string lower(std::string_view text) {
  return lower_text(text, false);
}

std::string lower_words(std::string_view text) {
  return lower_text(text, true);
}

std::string without_punctuation(std::string_view text) {
  std::string out(text);
  std::erase_if(out, is_punctuation);
  return out;
}

std::string collapse_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool is_pending = false;
  for_each_character(text, [&](std::string_view sequence, std::size_t) {
    if (is_space(decode(sequence))) {
      is_pending = !out.empty();
      return;
    }
    if (is_pending) {
      out += ' ';
      is_pending = false;
    }
    out += sequence;
  });
  return out;
}

std::string canonicalize(std::string_view text) {
  return collapse_spaces(without_punctuation(lower_words(text)));
}

}  // namespace fovea::text
