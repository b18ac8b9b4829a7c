// Helpers for strings: parsing of numbers, case conversion and percent-encoding.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace fovea {

/// Parses the whole text as a number; returns nothing when it is not one or does not fit into
/// `Number`.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number number{};
  const char* const first = text.data();
  const char* const last = first + text.size();
  const auto [end, error] = std::from_chars(first, last, number, base);
  return error == std::errc() && end == last ? std::optional(number) : std::nullopt;
}

/// Returns the bytes as a string_view.
[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[nodiscard]] std::string lower_case(std::string_view text);

/// Percent-encodes text for a URL: every byte becomes "%HH", except letters, digits, "-._~" and
/// those in `safe`.
[[nodiscard]] std::string percent_encode(std::string_view text, std::string_view safe = "");

}  // namespace fovea
