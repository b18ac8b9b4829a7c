// Text of a printf on the device: conversions as C has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace emu {

/// Where the values of a printf come from.
struct PrintSource {
  /// Returns the next value, of 4 or 8 bytes.
  std::function<std::uint64_t(std::size_t bytes)> next{};
  /// Returns the string at an address.
  std::function<std::string(std::uint64_t address)> string_at{};
};

/// Formats the values; returns the number of conversions in `count`. Ends behind the conversion
/// with which the text has more than `max_bytes`.
std::string format_print(std::string_view format, const PrintSource& source, std::size_t max_bytes,
                         int& count);

}  // namespace emu
