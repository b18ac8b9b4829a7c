// Which instructions the CPU has, or may use: FOVEA_CPU_ISA lowers them for tests.
#pragma once

#include <string>

namespace fovea::cpu {

/// Reads FOVEA_CPU_ISA (avx2, avx512, avx512_bf16, amx; unset or empty: all there is) once a
/// process and limits oneDNN and the vector kernels to it. Every backend calls this first.
/// Throws fovea::Error when the value is not one of these, or oneDNN runs already.
void limit_isa_from_environment();

/// What oneDNN uses, after limiting: "sse41", "avx2", "avx512_core", "avx512_core_bf16", ...
[[nodiscard]] std::string isa_name();

/// "3.5.3"
[[nodiscard]] std::string onednn_version();

/// Whether products of bfloat16 matrices run in hardware (AMX or AVX512-BF16).
[[nodiscard]] bool has_bf16();

}  // namespace fovea::cpu
