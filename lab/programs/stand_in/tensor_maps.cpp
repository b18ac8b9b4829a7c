// CUDA's driver in the emulator: tensor maps.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "fovea_emulator/error.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {
namespace {

// Swizzles, in the order of the driver's numbers; nothing for one that is not supported.
using Swizzle = emu::TensorMapSwizzle;
constexpr std::array<std::optional<Swizzle>, 7> kSwizzles = {
    Swizzle::kNone,      Swizzle::k32, Swizzle::k64,       Swizzle::k128,
    Swizzle::k128Atom32, std::nullopt, Swizzle::k128Atom64};

// Returns the swizzle of this number. Cards before sm_100 refuse those of larger units.
Swizzle swizzle_of(int number, int arch) {
  constexpr int kFirstOfBlackwell = 4;
  const bool is_known = number >= 0 && static_cast<std::size_t>(number) < kSwizzles.size();
  const auto swizzle = is_known ? kSwizzles.at(static_cast<std::size_t>(number)) : std::nullopt;
  if (!swizzle.has_value()) {
    throw CallError{kNotSupported, fmt::format("the swizzle {} is not supported", number)};
  }
  if (number >= kFirstOfBlackwell && arch < 100) {
    throw CallError{kInvalidValue,
                    fmt::format("the swizzle {} needs sm_100 or later (--target)", number)};
  }
  return *swizzle;
}

}  // namespace

FOVEA_ENTRY cuTensorMapEncodeTiled(void* to, int type, std::uint32_t rank, void* address,
                                   const std::uint64_t* dims, const std::uint64_t* strides,
                                   const std::uint32_t* box, const std::uint32_t* element_strides,
                                   int interleave, int swizzle, int /*l2_promotion*/, int fill) {
  return driver_call(__func__, [&](Gpu& gpu) {
    constexpr std::uint32_t kMaxRank = 5;
    constexpr std::uint64_t kAlignment = 64;
    if (to == nullptr || number_of(to) % kAlignment != 0) {
      throw CallError{kInvalidValue, fmt::format("the map lies at {}, which is no multiple of {}",
                                                 to, kAlignment)};
    }
    if (rank == 0 || rank > kMaxRank) {
      throw CallError{kInvalidValue,
                      fmt::format("a map of {} dimensions; expected 1 to {}", rank, kMaxRank)};
    }
    if (type < 0 || type > static_cast<int>(emu::TensorMapType::kTF32Ftz)) {
      throw CallError{kNotSupported, fmt::format("the element type {} is not supported", type)};
    }
    if (interleave != 0) {
      throw CallError{kNotSupported, "interleaved tensor maps are not supported"};
    }
    emu::TensorMapDesc desc{
        .type = static_cast<emu::TensorMapType>(type),
        .rank = static_cast<int>(rank),
        .address = number_of(address),
        .swizzle = swizzle_of(swizzle, gpu.settings().arch),
        .fill = fill == 0 ? emu::TensorMapFill::kZero : emu::TensorMapFill::kNan};
    std::copy_n(dims, rank, desc.dims.begin());
    std::copy_n(strides, rank - 1, desc.strides.begin());
    std::copy_n(box, rank, desc.box.begin());
    std::copy_n(element_strides, rank, desc.element_strides.begin());
    try {
      std::ranges::copy(emu::encode(desc), static_cast<std::byte*>(to));
    } catch (const emu::Error& error) {
      throw CallError{kInvalidValue, error.what()};
    }
  });
}

}  // namespace fovea::programs
