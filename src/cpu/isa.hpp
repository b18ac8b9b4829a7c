// The instruction sets that the CPU supports; FOVEA_CPU_ISA restricts them for tests.
#pragma once

#include <string>

#include "core/dtype.hpp"
#include "cpu/tiles/tile_kernel.hpp"

namespace fovea::cpu {

/// Reads FOVEA_CPU_ISA (generic, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, amx; unset or
/// empty: no limit) once per process and limits matrix products and vector kernels to it. Every
/// backend calls this first. Throws fovea::Error when the value is not one of these.
void limit_isa_from_environment();

/// The name of the highest instruction set in use, after limiting.
[[nodiscard]] std::string isa_name();

/// Whether products of bfloat16 matrices run in hardware (AMX or AVX512-BF16).
[[nodiscard]] bool has_bf16();
/// Whether products of 8-bit integers are faster on this CPU than those of float32.
[[nodiscard]] bool has_int8();

/// The operand type of products for `type`: bf16 stays bf16 where the CPU has such products; other
/// types are widened to float32.
[[nodiscard]] DType product_type(DType type);

/// The fastest tiles for operands of this type: kF32, kBF16 (where has_bf16), or kI8 and kU8.
[[nodiscard]] const TileKernel& tile_kernel(DType type);

}  // namespace fovea::cpu
