// Boxes of tensors, gone through element by element: what the emulator's copies are compared with.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>

#include "fovea_emulator/tensor_map.hpp"

namespace emu {

inline constexpr std::array kTypes = {TensorMapType::kU8,  TensorMapType::kU16, TensorMapType::kU32,
                                      TensorMapType::kS32, TensorMapType::kU64, TensorMapType::kS64,
                                      TensorMapType::kF16, TensorMapType::kF32, TensorMapType::kF64,
                                      TensorMapType::kBF16};
inline constexpr std::array<std::uint32_t, 10> kSizes = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};

/// A map, and a box of it in shared memory.
struct TensorCase {
  TensorMapDesc desc;
  std::uint32_t element = 0;
  std::uint32_t shared = 0;
  std::array<std::int32_t, 5> coordinates{};
};

/// A map that is allowed, and a box somewhere about its tensor's edges. `is_disjoint`: no two
/// elements share memory.
inline TensorCase random_tensor_case(std::mt19937_64& random, bool is_disjoint = false) {
  const auto below = [&](std::uint64_t end) { return random() % end; };
  TensorCase made;
  TensorMapDesc& desc = made.desc;
  const std::size_t type = below(kTypes.size());
  desc.type = kTypes.at(type);
  made.element = kSizes.at(type);
  desc.rank = 1 + static_cast<int>(below(5));
  desc.address = 0x10'0000'0000 + 16 * below(1000);
  desc.swizzle = static_cast<TensorMapSwizzle>(below(6));
  desc.fill = type >= 6 && below(2) == 1 ? TensorMapFill::kNan : TensorMapFill::kZero;
  const auto rank = static_cast<std::size_t>(desc.rank);
  const std::uint64_t units =
      desc.swizzle == TensorMapSwizzle::kNone
          ? 1 + below(made.element == 1 ? 16 : 12)
          : 1 + below(std::uint64_t{1} << std::min(static_cast<unsigned>(desc.swizzle), 3U));
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t most = rank > 3 ? 4 : 9;
    desc.dims.at(i) = 1 + below(i == 0 ? 300 : 12);
    desc.box.at(i) =
        static_cast<std::uint32_t>(i == 0 ? units * 16 / made.element : 1 + below(most));
    desc.element_strides.at(i) = static_cast<std::uint32_t>(below(3) == 0 ? 1 + below(8) : 1);
    made.coordinates.at(i) = static_cast<std::int32_t>(below(desc.dims.at(i) + 40)) - 20;
    if (i == 0) {  // rows of the box begin at multiples of 16 bytes
      const auto unit = static_cast<std::int32_t>(16 / made.element);
      made.coordinates[0] = made.coordinates[0] / unit * unit;
    }
    if (i > 0) {
      const std::uint64_t below_it =
          desc.dims.at(i - 1) * (i == 1 ? made.element : desc.strides.at(i - 2));
      desc.strides.at(i - 1) =
          is_disjoint ? (below_it + 15) / 16 * 16 + 16 * below(3) : 16 * (1 + below(200));
    }
  }
  made.shared = static_cast<std::uint32_t>(128 * (8 + below(100)));
  return made;
}

// Rows of units of 16 bytes as the PTX manual draws them: which unit lies at each place.
inline constexpr std::array<std::array<std::uint32_t, 8>, 2> kDrawn32 = {
    {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}}};
inline constexpr std::array<std::array<std::uint32_t, 8>, 4> kDrawn64 = {
    {{0, 1, 2, 3, 4, 5, 6, 7},
     {1, 0, 3, 2, 5, 4, 7, 6},
     {2, 3, 0, 1, 6, 7, 4, 5},
     {3, 2, 1, 0, 7, 6, 5, 4}}};
inline constexpr std::array<std::array<std::uint32_t, 8>, 8> kDrawn128 = {
    {{0, 1, 2, 3, 4, 5, 6, 7},
     {1, 0, 3, 2, 5, 4, 7, 6},
     {2, 3, 0, 1, 6, 7, 4, 5},
     {3, 2, 1, 0, 7, 6, 5, 4},
     {4, 5, 6, 7, 0, 1, 2, 3},
     {5, 4, 7, 6, 1, 0, 3, 2},
     {6, 7, 4, 5, 2, 3, 0, 1},
     {7, 6, 5, 4, 3, 2, 1, 0}}};

inline constexpr std::array<std::array<std::uint32_t, 8>, 4> kDrawn128Atom32 = {
    {{0, 1, 2, 3, 4, 5, 6, 7},
     {2, 3, 0, 1, 6, 7, 4, 5},
     {4, 5, 6, 7, 0, 1, 2, 3},
     {6, 7, 4, 5, 2, 3, 0, 1}}};
inline constexpr std::array<std::array<std::uint32_t, 8>, 2> kDrawn128Atom64 = {
    {{0, 1, 2, 3, 4, 5, 6, 7}, {4, 5, 6, 7, 0, 1, 2, 3}}};

inline std::uint32_t drawn_place(std::uint32_t address, TensorMapSwizzle swizzle) {
  if (swizzle == TensorMapSwizzle::kNone) {
    return address;
  }
  const std::uint32_t line = address / 128;
  const std::uint32_t unit = address % 128 / 16;
  const auto& row = swizzle == TensorMapSwizzle::k32          ? kDrawn32.at(line % 2)
                    : swizzle == TensorMapSwizzle::k64        ? kDrawn64.at(line % 4)
                    : swizzle == TensorMapSwizzle::k128Atom32 ? kDrawn128Atom32.at(line % 4)
                    : swizzle == TensorMapSwizzle::k128Atom64 ? kDrawn128Atom64.at(line % 2)
                                                              : kDrawn128.at(line % 8);
  for (std::uint32_t place = 0; place < 8; ++place) {
    if (row.at(place) == unit) {
      return line * 128 + place * 16 + address % 16;
    }
  }
  return 0;
}

/// Where each byte of shared memory comes from; 0: from outside of the tensor.
using TensorSources = std::map<std::uint32_t, std::uint64_t>;

inline TensorSources expected_sources(const TensorCase& made) {
  const TensorMapDesc& desc = made.desc;
  std::array<std::uint32_t, 5> box = {1, 1, 1, 1, 1};
  std::array<std::uint32_t, 5> step = {1, 1, 1, 1, 1};
  std::array<std::uint64_t, 5> dims = {1, 1, 1, 1, 1};
  std::array<std::uint64_t, 5> strides = {made.element, 0, 0, 0, 0};
  for (std::size_t i = 0; i < static_cast<std::size_t>(desc.rank); ++i) {
    box.at(i) = desc.box.at(i);
    dims.at(i) = desc.dims.at(i);
    step.at(i) = i == 0 ? 1 : desc.element_strides.at(i);
    strides.at(i) = i == 0 ? made.element : desc.strides.at(i - 1);
  }
  const std::uint32_t pitch = desc.swizzle == TensorMapSwizzle::kNone ? box[0] * made.element
                              : desc.swizzle == TensorMapSwizzle::k32 ? 32
                              : desc.swizzle == TensorMapSwizzle::k64 ? 64
                                                                      : 128;
  TensorSources sources;
  std::uint32_t row = made.shared;
  std::array<std::uint32_t, 5> i{};
  for (i[4] = 0; i[4] < box[4]; i[4] += step[4]) {
    for (i[3] = 0; i[3] < box[3]; i[3] += step[3]) {
      for (i[2] = 0; i[2] < box[2]; i[2] += step[2]) {
        for (i[1] = 0; i[1] < box[1]; i[1] += step[1]) {
          for (i[0] = 0; i[0] < box[0]; ++i[0]) {
            bool is_inside = true;
            std::uint64_t from = desc.address;
            for (std::size_t d = 0; d < 5; ++d) {
              const std::int64_t place = std::int64_t{made.coordinates.at(d)} + i.at(d);
              is_inside = is_inside && place >= 0 && place < static_cast<std::int64_t>(dims.at(d));
              from += static_cast<std::uint64_t>(place) * strides.at(d);
            }
            for (std::uint32_t byte = 0; byte < made.element; ++byte) {
              sources[drawn_place(row + i[0] * made.element + byte, desc.swizzle)] =
                  is_inside ? from + byte : 0;
            }
          }
          row += pitch;
        }
      }
    }
  }
  return sources;
}

}  // namespace emu
