// A 64-bit FNV-1a hash that consumes eight bytes at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace fovea::captures {

class Hash {
 public:
  void add_number(std::uint64_t number) {
    value_ = (value_ ^ number) * 0x100000001B3U;
    value_ ^= value_ >> 29U;
  }
  template <typename Numbers>
  void add_numbers(const Numbers& numbers) {
    for (const auto number : numbers) {
      add_number(number);
    }
  }
  void add(std::span<const std::byte> bytes) {
    add_number(bytes.size());
    for (std::size_t offset = 0; offset < bytes.size(); offset += 8) {
      std::uint64_t number = 0;
      const std::size_t count = bytes.size() - offset;
      std::memcpy(&number, bytes.data() + offset, count < 8 ? count : 8);
      add_number(number);
    }
  }
  void add_text(std::string_view text) { add(std::as_bytes(std::span(text))); }
  /// Adds PTX to the hash, without comments and debug information, which only give source
  /// locations.
  void add_ptx(std::string_view ptx) {
    while (!ptx.empty()) {
      const std::size_t end = std::min(ptx.find('\n'), ptx.size() - 1) + 1;
      std::string_view line = ptx.substr(0, end);
      ptx.remove_prefix(end);
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      if (line.starts_with(".section")) {
        ptx = {};  // only debug sections follow
      } else if (!line.starts_with(".loc") && !line.starts_with(".file") &&
                 !line.starts_with("//")) {
        add_text(line);
      }
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

}  // namespace fovea::captures
