// Text of a printf on the device: conversions as C has them.
#include "emulator/operations/print_format.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <vector>

#include <locale.h>

namespace emu {
namespace {

// Limit for widths and precisions, so that a line is not larger than memory.
constexpr std::int64_t kMaxWidth = 4096;

// A conversion specification: "%-8.3f".
struct Conversion {
  std::string flags{};
  std::int64_t width = -1;      // -1: not given
  std::int64_t precision = -1;  // -1: not given
  std::string_view length{};
  char type = '\0';
};

// The locale of the thread is that of C, as it is on a GPU, whatever the program has set.
class PlainLocale {
 public:
  PlainLocale() : previous_(uselocale(plain())) {}
  ~PlainLocale() { uselocale(previous_); }
  PlainLocale(const PlainLocale&) = delete;
  PlainLocale& operator=(const PlainLocale&) = delete;

 private:
  static locale_t plain() {
    static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", nullptr);
    return kPlain;
  }
  locale_t previous_;
};

// Formats one value by the C library; `length` is that of the value's type there.
template <typename T>
std::string format_value(const Conversion& conversion, std::string_view length, T value) {
  std::string format = '%' + conversion.flags;
  if (conversion.width >= 0) {
    format += std::to_string(conversion.width);
  }
  if (conversion.precision >= 0) {
    format += '.' + std::to_string(conversion.precision);
  }
  format += length;
  format += conversion.type;
  constexpr std::size_t kLargestNumber = 512;  // a binary64 has at most 309 digits before the point
  std::vector<char> text(2 * kMaxWidth + kLargestNumber);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): the format has one conversion, of T
  const int size = std::snprintf(text.data(), text.size(), format.c_str(), value);
#pragma GCC diagnostic pop
  return {text.data(), std::min(static_cast<std::size_t>(std::max(size, 0)), text.size() - 1)};
}

class Formatter {
 public:
  Formatter(std::string_view format, const PrintSource& source)
      : format_(format), source_(source) {}

  std::string run(std::size_t max_bytes, int& count) {
    std::string text;
    while (position_ < format_.size() && text.size() <= max_bytes) {
      const std::size_t start = position_++;
      if (format_[start] != '%') {
        text += format_[start];
      } else if (peek() == '%') {
        ++position_;
        text += '%';
      } else if (const Conversion conversion = read(); is_known(conversion.type)) {
        text += convert(conversion);
        ++count;
      } else {
        text += format_.substr(start, position_ - start);
      }
    }
    return text;
  }

 private:
  [[nodiscard]] char peek() const { return position_ < format_.size() ? format_[position_] : '\0'; }

  static bool is_known(char type) {
    return type != '\0' &&
           std::string_view("diouxXcspfFeEgGaA").find(type) != std::string_view::npos;
  }

  Conversion read() {
    Conversion conversion;
    while (peek() != '\0' && std::string_view("-+ #0").find(peek()) != std::string_view::npos) {
      if (conversion.flags.find(peek()) == std::string::npos) {
        conversion.flags += peek();
      }
      ++position_;
    }
    conversion.width = read_number();
    if (conversion.width < -1) {  // a negative width of '*' aligns to the left
      conversion.flags += '-';
      conversion.width = std::min(-conversion.width, kMaxWidth);
    }
    if (peek() == '.') {
      ++position_;
      const std::int64_t precision = read_number();
      conversion.precision = precision == -1 ? 0 : std::max<std::int64_t>(precision, -1);
    }
    const std::size_t begin = position_;
    while (peek() != '\0' && std::string_view("hlqLjzt").find(peek()) != std::string_view::npos) {
      ++position_;
    }
    conversion.length = format_.substr(begin, position_ - begin);
    if (peek() != '\0') {
      conversion.type = format_[position_++];
    }
    return conversion;
  }

  // Reads digits, or '*' for the next value; -1 without either.
  std::int64_t read_number() {
    if (peek() == '*') {
      ++position_;
      const auto value = static_cast<std::int32_t>(source_.next(sizeof(std::int32_t)));
      return value == -1 ? -2 : std::clamp<std::int64_t>(value, -kMaxWidth, kMaxWidth);
    }
    std::int64_t value = -1;
    while (peek() >= '0' && peek() <= '9') {
      value = std::min(std::max<std::int64_t>(value, 0) * 10 + (peek() - '0'), kMaxWidth);
      ++position_;
    }
    return value;
  }

  std::string convert(const Conversion& conversion) {
    switch (conversion.type) {
      case 'd':
      case 'i':
        return format_value(conversion, "ll", next_signed(conversion.length));
      case 'o':
      case 'u':
      case 'x':
      case 'X':
        return format_value(conversion, "ll", next_unsigned(conversion.length));
      case 'c':
        return format_value(conversion, "", static_cast<int>(source_.next(sizeof(int))));
      case 's':
        return convert_string(conversion);
      case 'p':
        return format_value(conversion, "",
                            std::bit_cast<const void*>(source_.next(sizeof(void*))));
      default:
        return format_value(conversion, "", std::bit_cast<double>(source_.next(sizeof(double))));
    }
  }

  std::string convert_string(const Conversion& conversion) {
    std::string text = source_.string_at(source_.next(sizeof(std::uint64_t)));
    if (conversion.precision >= 0) {
      text.resize(std::min(text.size(), static_cast<std::size_t>(conversion.precision)));
    }
    const auto width = static_cast<std::size_t>(std::max<std::int64_t>(conversion.width, 0));
    const std::string blanks(width - std::min(width, text.size()), ' ');
    return conversion.flags.find('-') != std::string::npos ? text + blanks : blanks + text;
  }

  static bool is_wide(std::string_view length) { return !length.empty() && length.front() != 'h'; }

  long long next_signed(std::string_view length) {
    if (is_wide(length)) {
      return static_cast<long long>(source_.next(sizeof(std::uint64_t)));
    }
    const auto value = static_cast<std::int32_t>(source_.next(sizeof(std::int32_t)));
    return length == "hh"  ? static_cast<signed char>(value)
           : length == "h" ? static_cast<short>(value)
                           : value;
  }

  unsigned long long next_unsigned(std::string_view length) {
    if (is_wide(length)) {
      return source_.next(sizeof(std::uint64_t));
    }
    const auto value = static_cast<std::uint32_t>(source_.next(sizeof(std::uint32_t)));
    return length == "hh"  ? static_cast<unsigned char>(value)
           : length == "h" ? static_cast<unsigned short>(value)
                           : value;
  }

  std::string_view format_;
  const PrintSource& source_;
  std::size_t position_ = 0;
};

}  // namespace

std::string format_print(std::string_view format, const PrintSource& source, std::size_t max_bytes,
                         int& count) {
  count = 0;
  const PlainLocale locale;
  return Formatter(format, source).run(max_bytes, count);
}

}  // namespace emu
