// Tensor maps of micro-kernels, and what a box of one holds in shared memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "emulator/captures/builder.hpp"

namespace captures {

constexpr std::string_view kTensorBuffer = ".extern .shared .align 1024 .b8 buffer[];";

std::size_t element_bytes(Element element);
std::string_view name_of(Element element);
std::string_view name_of(Swizzle swizzle);
/// ".narrow" where rows are narrower than the swizzle.
std::string_view width_of(const TensorMap& map);
/// What a load counts at its barrier.
std::size_t box_bytes(const TensorMap& map);
/// From one row of a box in shared memory to the next: as wide as the swizzle, if there is one.
std::size_t row_pitch(const TensorMap& map);
/// Of shared memory.
std::size_t placed_bytes(const TensorMap& map);
/// Of the tensor, from its first byte to its last one.
std::size_t tensor_bytes(const TensorMap& map);

/// A map by a seed: dims that are no multiples of the box, rows that are padded, a box of at most
/// `max_bytes` whose rows are as wide as the swizzle allows, or less.
TensorMap random_map(Element element, Swizzle swizzle, int rank, std::uint64_t seed,
                     std::size_t max_bytes = 8192);

/// Where a byte of the box lies in shared memory, for a box that begins at `base`.
std::size_t swizzled(std::size_t address, Swizzle swizzle);

/// Calls use(byte in shared memory before it is swizzled, byte of the tensor or -1) for each byte
/// of a box at the coordinates.
template <typename Use>
void for_each_byte(const TensorMap& map, const std::array<std::int32_t, 5>& at, Use&& use) {
  const std::size_t size = element_bytes(map.element);
  std::array<std::size_t, 5> box{1, 1, 1, 1, 1};
  for (std::size_t d = 0; d < static_cast<std::size_t>(map.rank); ++d) {
    box.at(d) = map.box.at(d);
  }
  std::size_t row = 0;
  std::array<std::size_t, 5> i{};
  for (i[4] = 0; i[4] < box[4]; ++i[4]) {
    for (i[3] = 0; i[3] < box[3]; ++i[3]) {
      for (i[2] = 0; i[2] < box[2]; ++i[2]) {
        for (i[1] = 0; i[1] < box[1]; ++i[1]) {
          for (i[0] = 0; i[0] < box[0]; ++i[0]) {
            std::int64_t place = 0;
            bool is_inside = true;
            for (std::size_t d = 0; d < static_cast<std::size_t>(map.rank); ++d) {
              const std::int64_t index = at.at(d) + static_cast<std::int64_t>(i.at(d));
              is_inside =
                  is_inside && index >= 0 && index < static_cast<std::int64_t>(map.dims.at(d));
              place += index * static_cast<std::int64_t>(d == 0 ? size : map.strides.at(d - 1));
            }
            for (std::size_t k = 0; k < size; ++k) {
              use(row * row_pitch(map) + i[0] * size + k,
                  is_inside ? place + static_cast<std::int64_t>(k) : -1);
            }
          }
          ++row;
        }
      }
    }
  }
}

/// The address of map `index` in the 64-bit register; another one is used.
std::string map_address(std::string_view to, std::size_t index);
/// Coordinates of this block, eight words each at `from`, in %r20 to %r24.
std::string load_coordinates(std::string_view from, std::string_view index);
/// "{%r20, %r21, %r22}".
std::string coordinates(int rank);
/// All threads wait for the phase of the barrier at the register.
std::string wait_for(std::string_view barrier, std::string_view parity, std::string_view label);

}  // namespace captures
