// Types of PTX instructions.
#include "emulator/syntax/types.hpp"

#include <algorithm>
#include <array>

namespace emu {
namespace {

struct Entry {
  std::string_view name;
  Type type;
  int bits;
};

constexpr std::array kTypes = {
    Entry{"pred", Type::kPred, 1},      Entry{"b8", Type::kB8, 8},
    Entry{"b16", Type::kB16, 16},       Entry{"b32", Type::kB32, 32},
    Entry{"b64", Type::kB64, 64},       Entry{"u8", Type::kU8, 8},
    Entry{"u16", Type::kU16, 16},       Entry{"u32", Type::kU32, 32},
    Entry{"u64", Type::kU64, 64},       Entry{"s8", Type::kS8, 8},
    Entry{"s16", Type::kS16, 16},       Entry{"s32", Type::kS32, 32},
    Entry{"s64", Type::kS64, 64},       Entry{"f16", Type::kF16, 16},
    Entry{"f16x2", Type::kF16x2, 32},   Entry{"bf16", Type::kBF16, 16},
    Entry{"bf16x2", Type::kBF16x2, 32}, Entry{"f32", Type::kF32, 32},
    Entry{"f64", Type::kF64, 64},       Entry{"e4m3x2", Type::kE4M3x2, 16},
    Entry{"f32x2", Type::kF32x2, 64},   Entry{"ue8m0x2", Type::kUE8M0x2, 16},
    Entry{"e5m2x2", Type::kE5M2x2, 16}, Entry{"e4m3", Type::kE4M3, 8},
    Entry{"e5m2", Type::kE5M2, 8},      Entry{"b128", Type::kB128, 128},
    Entry{"u16x2", Type::kU16x2, 32},   Entry{"s16x2", Type::kS16x2, 32},
    Entry{"tf32", Type::kTF32, 32},     Entry{"e2m1x2", Type::kE2M1x2, 8},
    Entry{"e2m3x2", Type::kE2M3x2, 16}, Entry{"e3m2x2", Type::kE3M2x2, 16},
    Entry{"s4", Type::kS4, 4},          Entry{"u4", Type::kU4, 4},
    Entry{"b1", Type::kB1, 1},          Entry{"e3m2", Type::kE3M2, 6},
    Entry{"e2m3", Type::kE2M3, 6},      Entry{"e2m1", Type::kE2M1, 4},
    Entry{"ue8m0", Type::kUE8M0, 8},
};

}  // namespace

std::optional<Type> find_type(std::string_view name) {
  const auto* const row = std::ranges::find(kTypes, name, &Entry::name);
  return row == kTypes.end() ? std::nullopt : std::optional(row->type);
}

int bits_of(Type type) {
  return std::ranges::find(kTypes, type, &Entry::type)->bits;
}

Type bit_type(int bits) {
  return bits == 16    ? Type::kB16
         : bits == 32  ? Type::kB32
         : bits == 64  ? Type::kB64
         : bits == 128 ? Type::kB128
                       : Type::kB8;
}

bool is_signed(Type type) {
  return (type >= Type::kS8 && type <= Type::kS64) || type == Type::kS16x2;
}

bool is_float(Type type) {
  return type >= Type::kF16;
}

}  // namespace emu
