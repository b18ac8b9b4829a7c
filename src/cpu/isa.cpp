// Detects the instruction sets of CPU and operating system; FOVEA_CPU_ISA restricts them for tiles
// and Highway alike.
#include "cpu/isa.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include <hwy/highway.h>

#include "core/error.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fovea::cpu {
namespace {

constexpr const char* kVariable = "FOVEA_CPU_ISA";

/// Features of a CPU, one bit each.
enum Feature : unsigned {
  kHasAvx2 = 1,
  kHasAvx2Vnni = 2,
  kHasAvx512 = 4,
  kHasAvx512Vnni = 8,
  kHasAvx512Bf16 = 16,
  kHasAmx = 32,
};

struct Level {
  std::string_view name;
  unsigned feature;  // the feature that gives the set its name
  unsigned allows;
};

constexpr unsigned kUpToVnni = kHasAvx2 | kHasAvx512 | kHasAvx512Vnni;
constexpr std::array<Level, 7> kLevels{{
    {"generic", 0, 0},
    {"avx2", kHasAvx2, kHasAvx2},
    {"avx2_vnni", kHasAvx2Vnni, kHasAvx2 | kHasAvx2Vnni},
    {"avx512", kHasAvx512, kHasAvx2 | kHasAvx512},
    {"avx512_vnni", kHasAvx512Vnni, kUpToVnni},
    {"avx512_bf16", kHasAvx512Bf16, kUpToVnni | kHasAvx512Bf16},
    {"amx", kHasAmx, ~0U},
}};

#if defined(__x86_64__)

/// Requests permission from Linux to use the AMX registers (8 KiB per thread); returns whether it
/// is granted.
bool amx_permitted() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

unsigned detect() {
  // Bits of CPUID leaf 7.
  constexpr unsigned kAvxVnniBit = 1U << 4;                      // 7.1 eax
  constexpr unsigned kAmxBits = 1U << 22 | 1U << 24 | 1U << 25;  // 7.0 edx: bf16, tiles, int8
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx2_vnni =
      avx2 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnniBit) != 0;
  const bool avx512 =
      avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  const bool avx512_vnni = avx512 && __builtin_cpu_supports("avx512vnni") != 0;
  const bool avx512_bf16 = avx512_vnni && __builtin_cpu_supports("avx512bf16") != 0;
  const bool amx = avx512_bf16 && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
                   (edx & kAmxBits) == kAmxBits && amx_permitted();
  return unsigned{avx2} * kHasAvx2 | unsigned{avx2_vnni} * kHasAvx2Vnni |
         unsigned{avx512} * kHasAvx512 | unsigned{avx512_vnni} * kHasAvx512Vnni |
         unsigned{avx512_bf16} * kHasAvx512Bf16 | unsigned{amx} * kHasAmx;
}

#else

unsigned detect() {
  return 0;
}

#endif

unsigned limit() {
  const char* const value = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): only read
  const unsigned found = detect();
  if (value == nullptr || *value == '\0') {
    return found;
  }
  const auto* const level = std::ranges::find(kLevels, std::string_view(value), &Level::name);
  if (level == std::end(kLevels)) {
    fail_usage(
        "{}={} names no instruction set; use generic, avx2, avx2_vnni, avx512, avx512_vnni, "
        "avx512_bf16 or amx",
        kVariable, value);
  }
  if ((level->allows & kHasAvx512) == 0) {
    hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL | (level->allows == 0 ? HWY_AVX2 : 0));
  }
  return found & level->allows;
}

unsigned features() {
  static const unsigned found = limit();
  return found;
}

bool has(Feature feature) {
  return (features() & feature) != 0;
}

}  // namespace

void limit_isa_from_environment() {
  features();
}

std::string isa_name() {
  std::string_view name;
  for (const Level& level : kLevels) {
    if ((features() & level.feature) == level.feature) {
      name = level.name;
    }
  }
  return std::string(name);
}

bool has_bf16() {
  return has(kHasAvx512Bf16);
}

bool has_int8() {
  return has(kHasAvx2);
}

DType product_type(DType type) {
  return type == DType::kBF16 && has_bf16() ? DType::kBF16 : DType::kF32;
}

const TileKernel& tile_kernel(DType type) {
#if defined(__x86_64__)
  switch (type) {
    case DType::kF32:
      return has(kHasAvx512) ? avx512_f32 : has(kHasAvx2) ? avx2_f32 : generic_f32;
    case DType::kBF16:
      if (has_bf16()) {
        return has(kHasAmx) ? amx_bf16 : avx512_bf16;
      }
      break;
    case DType::kI8:
    case DType::kU8:
      if (has_int8()) {
        return has(kHasAmx)          ? (type == DType::kI8 ? amx_i8i8 : amx_u8i8)
               : has(kHasAvx512Vnni) ? avx512_vnni_u8i8
               : has(kHasAvx2Vnni)   ? avx2_vnni_u8i8
               : has(kHasAvx512)     ? avx512_i16
                                     : avx2_i16;
      }
      break;
    default:
      break;
  }
#else
  if (type == DType::kF32) {
    return generic_f32;
  }
#endif
  fail("this CPU has no matrix products for operands of {}", to_string(type));
}

}  // namespace fovea::cpu
