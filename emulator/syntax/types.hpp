// Types of PTX instructions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace emu {

enum class Type : std::uint8_t {
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kU16x2,
  kS16x2,
  kS4,
  kU4,
  kB1,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kTF32,
  kF32,
  kF32x2,
  kF64,
  kUE8M0x2,
  kE4M3x2,
  kE5M2x2,
  kE2M1x2,
  kE2M3x2,
  kE3M2x2,
  kE4M3,
  kE5M2,
  kE3M2,
  kE2M3,
  kE2M1,
  kUE8M0,
};

/// Finds a type by its name, such as "f32"; nothing if there is no such type.
std::optional<Type> find_type(std::string_view name);
int bits_of(Type type);
/// Returns the type .b16, .b32, .b64 or .b128 of this size; .b8 for any other size.
Type bit_type(int bits);
bool is_signed(Type type);
bool is_float(Type type);

}  // namespace emu
