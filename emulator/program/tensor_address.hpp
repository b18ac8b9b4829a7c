// Addresses of a block's tensor memory: 128 lanes of 512 columns, 32 bits each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu {

constexpr std::size_t kTensorLanes = 128;
constexpr std::size_t kTensorColumns = 512;
constexpr std::size_t kTensorWords = kTensorLanes * kTensorColumns;

/// Index of a word in storage where the words of a lane are contiguous.
constexpr std::size_t tensor_place(std::size_t lane, std::size_t column) {
  return lane * kTensorColumns + column;
}
/// Lane and column of an address.
constexpr std::size_t tensor_lane(std::uint32_t address) {
  return address >> 16U;
}
constexpr std::size_t tensor_column(std::uint32_t address) {
  return address & 0xFFFFU;
}
constexpr std::uint32_t tensor_address(std::size_t lane, std::size_t column) {
  return static_cast<std::uint32_t>(lane << 16U | column);
}

/// A rectangle of words of a block's tensor memory.
struct TensorRange {
  std::size_t block = 0;
  std::size_t lane = 0;
  std::size_t lanes = 0;
  std::size_t column = 0;
  std::size_t columns = 0;
};

}  // namespace emu
