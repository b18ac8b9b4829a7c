// Types of numbers in kernels' memory: their names, sizes and bits.
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

/// "f32"; b8 to b64 are other names of u8 to u64.
[[nodiscard]] std::optional<ElementType> find_type(std::string_view name);
/// The names that find_type() knows.
[[nodiscard]] std::vector<std::string> type_names();
[[nodiscard]] std::string_view name_of(ElementType type);
[[nodiscard]] std::size_t size_of(ElementType type);
[[nodiscard]] bool is_float(ElementType type);

/// How .npy files call it; NumPy has no bf16 and no e4m3, whose bits are u16 and u8 there.
[[nodiscard]] std::string_view npy_descr(ElementType type);
[[nodiscard]] std::optional<ElementType> type_of_npy(std::string_view descr);
/// Whether an array of a file may hold such elements.
[[nodiscard]] bool fits_npy(ElementType type, std::string_view descr);

/// Writes the number at `to`: rounded to the nearest (by way of f32 where it is shorter), or cut to
/// the range of whole numbers.
void put(ElementType type, double value, std::byte* to);
/// The same of a number of JSON, or of its bits as "0x7fc00000", or "inf", "-inf", "nan". Empty
/// when it was written, else what is wrong with it: "-1 is no u8".
[[nodiscard]] std::string put(ElementType type, const nlohmann::json& value, std::byte* to);
[[nodiscard]] double get(ElementType type, const std::byte* from);
/// The number, as short as it can be told from all others.
[[nodiscard]] std::string text_of(ElementType type, const std::byte* from);

}  // namespace fovea::emulation
