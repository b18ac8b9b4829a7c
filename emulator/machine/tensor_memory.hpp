// Tensor memory of a block: its words, its allocations, and the operations of it and of the other
// block of a pair that are in flight.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulator/program/program.hpp"
#include "emulator/program/tensor_address.hpp"
#include "emulator/races/tensor_shadow.hpp"

namespace emu {

class Warp;

/// Columns that tcgen05.alloc has allocated.
struct TensorAllocation {
  std::size_t first = 0;
  std::size_t columns = 0;
  Warp* warp = nullptr;  // that has allocated them
  const Op* op = nullptr;
};

/// An alloc or dealloc that warps of both blocks of a pair do together.
struct PairOperation {
  bool is_allocation = false;
  std::size_t columns = 0;
  const Op* op = nullptr;              // of the block that came first
  std::array<bool, 2> has_come{};      // which blocks'
  std::optional<std::size_t> first{};  // of the columns that were allocated
};

/// Queue of what tensor cores do, in order of issue: of a block, or of a pair of them.
struct TensorQueue {
  std::uint64_t issued = 0;
  std::uint64_t finished = 0;
};

class TensorMemory {
 public:
  /// Words, as tensor_place has them, and which of them were ever written: 0 or 1.
  [[nodiscard]] std::span<std::uint32_t> words();
  [[nodiscard]] std::span<std::uint8_t> written();
  [[nodiscard]] bool is_written(const TensorRange& range);
  void set_written(const TensorRange& range);

  /// Finds the first of so many free columns side by side. Nothing: there is no room.
  [[nodiscard]] std::optional<std::size_t> room_for(std::size_t columns) const;
  void allocate(const TensorAllocation& allocation);
  /// False: they were not allocated so.
  bool free(std::size_t first, std::size_t columns);
  [[nodiscard]] bool is_allocated(std::size_t first, std::size_t columns) const;
  [[nodiscard]] const std::vector<TensorAllocation>& allocations() const { return allocations_; }
  /// "32 to 63, 128 to 255"
  [[nodiscard]] std::string text() const;

  std::size_t last_asked = kTensorColumns;  // columns of the last alloc, which must not get more
  const Op* relinquished_by = nullptr;      // no alloc may come after it
  TensorQueue queue{};                      // of a pair: of its block of even rank
  std::deque<PairOperation> together{};     // likewise
  std::array<std::size_t, 2> come{};        // how many of them each block has begun
  /// Columns that the other block of the pair has deallocated, and this one has not.
  std::vector<TensorAllocation> given_back_by_other{};
  races::TensorShadow shadow{};

 private:
  std::vector<std::uint32_t> words_;  // empty before the first use
  std::vector<std::uint8_t> written_;
  std::vector<TensorAllocation> allocations_;
};

}  // namespace emu
