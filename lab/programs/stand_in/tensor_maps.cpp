// CUDA's driver in the emulator: tensor maps.
#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "fovea_emulator/error.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {
namespace {

// Element types and swizzles, in the order of the driver's numbers.
constexpr std::array kTypes = {emu::TensorMapType::kU8,  emu::TensorMapType::kU16,
                               emu::TensorMapType::kU32, emu::TensorMapType::kS32,
                               emu::TensorMapType::kU64, emu::TensorMapType::kS64,
                               emu::TensorMapType::kF16, emu::TensorMapType::kF32,
                               emu::TensorMapType::kF64, emu::TensorMapType::kBF16};
constexpr std::array kSwizzles = {emu::TensorMapSwizzle::kNone, emu::TensorMapSwizzle::k32,
                                  emu::TensorMapSwizzle::k64, emu::TensorMapSwizzle::k128};

template <typename Table>
auto look_up(const Table& table, int number, const char* what) {
  if (number < 0 || static_cast<std::size_t>(number) >= table.size()) {
    throw CallError{kNotSupported, fmt::format("the {} {} is not supported", what, number)};
  }
  return table[static_cast<std::size_t>(number)];
}

}  // namespace

FOVEA_ENTRY cuTensorMapEncodeTiled(void* to, int type, std::uint32_t rank, void* address,
                                   const std::uint64_t* dims, const std::uint64_t* strides,
                                   const std::uint32_t* box, const std::uint32_t* element_strides,
                                   int interleave, int swizzle, int /*l2_promotion*/, int fill) {
  return driver_call(__func__, [&](Gpu&) {
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
    if (interleave != 0) {
      throw CallError{kNotSupported, "interleaved tensor maps are not supported"};
    }
    emu::TensorMapDesc desc{
        .type = look_up(kTypes, type, "element type of tensor maps"),
        .rank = static_cast<int>(rank),
        .address = number_of(address),
        .swizzle = look_up(kSwizzles, swizzle, "swizzle of tensor maps"),
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
