// Precision: the types that an encoder computes in.
#pragma once

#include <cstdint>
#include <string_view>

namespace [[gnu::visibility("default")]] fovea {

enum class Precision : std::uint8_t { kAuto, kFp32, kBf16, kInt8, kFp8, kMxfp8 };

/// "auto", "fp32", "bf16", "int8", "fp8", "mxfp8": as on the command line, in manifests and in
/// messages.
[[nodiscard]] constexpr std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kAuto:
      return "auto";
    case Precision::kFp32:
      return "fp32";
    case Precision::kBf16:
      return "bf16";
    case Precision::kInt8:
      return "int8";
    case Precision::kFp8:
      return "fp8";
    case Precision::kMxfp8:
      return "mxfp8";
  }
  return "?";
}

/// Inverse of to_string. Throws fovea::Error on any other name.
[[nodiscard]] Precision parse_precision(std::string_view name);

}  // namespace fovea
