// Types of numbers in kernels' memory: their names, sizes and encodings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace fovea::emulation {

enum class ElementType : std::uint8_t {
  kU8,
  kS8,
  kE4M3,
  kU16,
  kS16,
  kF16,
  kBF16,
  kU32,
  kS32,
  kF32,
  kU64,
  kS64,
  kF64,
};

/// Finds a type by its name, such as "f32"; b8 to b64 are aliases for u8 to u64.
[[nodiscard]] std::optional<ElementType> find_type(std::string_view name);
/// Returns the names that find_type() knows.
[[nodiscard]] std::vector<std::string> type_names();
[[nodiscard]] std::string_view name_of(ElementType type);
[[nodiscard]] std::size_t size_of(ElementType type);
[[nodiscard]] bool is_float(ElementType type);

/// Returns the type's descr in .npy files; NumPy has neither bf16 nor e4m3, so their bits are
/// stored as u16 and u8.
[[nodiscard]] std::string_view npy_descr(ElementType type);
[[nodiscard]] std::optional<ElementType> type_of_npy(std::string_view descr);
/// Returns whether an array with this descr may hold such elements.
[[nodiscard]] bool fits_npy(ElementType type, std::string_view descr);

/// Writes the number to `to`, rounded to nearest (via f32 for narrower types) and clamped to the
/// range of integer types.
void put(ElementType type, double value, std::byte* to);
/// Writes a JSON value: a number, bits such as "0x7fc00000", or "inf", "-inf" or "nan". Returns ""
/// on success, else what is wrong: "-1 is not a valid u8".
[[nodiscard]] std::string put(ElementType type, const nlohmann::json& value, std::byte* to);
[[nodiscard]] double get(ElementType type, const std::byte* from);
/// Returns the shortest text that identifies the number.
[[nodiscard]] std::string text_of(ElementType type, const std::byte* from);

}  // namespace fovea::emulation
