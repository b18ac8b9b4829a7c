// Precision: the number formats in which an encoder computes. Each is a row of kPrecisions, from
// which names, help, messages and the backends' types are derived.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace [[gnu::visibility("default")]] fovea {

enum class Precision : std::uint8_t { kAuto, kFp32, kBf16, kInt8, kFp8, kMxfp8 };

struct PrecisionInfo {
  Precision precision;
  std::string_view name;  ///< as on the command line, in manifests and in messages
  /// Operand types of matrix products, such as "i8" with one scale per row: `normed` for products
  /// that follow a norm, `inner` for those that follow the activation of an MLP.
  std::string_view normed{};
  std::string_view inner{};
  bool on_cpus = false;     ///< supported on CPUs that have the instructions
  bool on_gpus = false;     ///< supported on GPUs that have the tensor cores
  bool calibrated = false;  ///< needs calibrate() with it, once per model
  bool compared = false;    ///< default of `verify` and `bench`
  std::string_view gpus{};  ///< the GPUs with tensor cores for it, when few have them
};

/// Rows in the order of Precision.
inline constexpr std::array<PrecisionInfo, 6> kPrecisions = {{
    {.precision = Precision::kAuto, .name = "auto"},
    {.precision = Precision::kFp32,
     .name = "fp32",
     .normed = "f32",
     .inner = "f32",
     .on_cpus = true,
     .compared = true},
    {.precision = Precision::kBf16,
     .name = "bf16",
     .normed = "bf16",
     .inner = "bf16",
     .on_cpus = true,
     .on_gpus = true,
     .compared = true},
    {.precision = Precision::kInt8,
     .name = "int8",
     .normed = "i8",
     .inner = "i8",
     .on_cpus = true,
     .on_gpus = true,
     .calibrated = true,
     .compared = true},
    // i8 with one scale per row is more accurate than e4m3 in the products that follow a norm.
    {.precision = Precision::kFp8,
     .name = "fp8",
     .normed = "i8",
     .inner = "e4m3",
     .on_gpus = true,
     .calibrated = true,
     .compared = true},
    {.precision = Precision::kMxfp8,
     .name = "mxfp8",
     .normed = "mxfp8",
     .inner = "mxfp8",
     .on_gpus = true,
     .gpus = "B200 and B300"},
}};

[[nodiscard]] constexpr const PrecisionInfo& info_of(Precision precision) {
  return kPrecisions.at(static_cast<std::size_t>(precision));
}

/// Returns the name: "bf16".
[[nodiscard]] constexpr std::string_view to_string(Precision precision) {
  const auto index = static_cast<std::size_t>(precision);
  return index < kPrecisions.size() ? kPrecisions[index].name : "?";
}

/// Inverse of to_string. Throws fovea::Error on any other name.
[[nodiscard]] Precision parse_precision(std::string_view name);

}  // namespace fovea
