// Texts: bytes as characters, numbers, letters and parts of URLs.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace fovea {

/// The number that all of the text is; none where it is not one, or one that `Number` cannot hold.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number number{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, base);
  return error == std::errc() && end == last ? std::optional(number) : std::nullopt;
}

/// Bytes as characters.
[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[nodiscard]] std::string lower_case(std::string_view text);

/// Text as a part of a URL: every byte becomes "%HH" but letters, digits, "-._~" and those `kept`.
[[nodiscard]] std::string percent_encode(std::string_view text, std::string_view kept = "");

}  // namespace fovea
