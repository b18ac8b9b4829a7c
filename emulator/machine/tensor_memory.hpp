// Tensor memory of a block: its words, its allocations, and the pending operations of a pair of
// blocks.
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
  Warp* warp = nullptr;  // warp that executed the tcgen05.alloc
  const Op* op = nullptr;
};

/// An alloc or dealloc that warps of both blocks of a pair execute together.
struct PairOperation {
  bool is_allocation = false;
  std::size_t columns = 0;
  const Op* op = nullptr;              // operation of the block that arrived first
  std::array<bool, 2> has_come{};      // whether each block has arrived
  std::optional<std::size_t> first{};  // first allocated column
};

/// Queue of the operations of tensor cores, in order of issue, for a block or a pair of blocks.
struct TensorQueue {
  std::uint64_t issued = 0;
  std::uint64_t finished = 0;
};

class TensorMemory {
 public:
  /// Words, indexed by tensor_place, and their initialisation flags: 0 or 1.
  [[nodiscard]] std::span<std::uint32_t> words();
  [[nodiscard]] std::span<std::uint8_t> written();
  [[nodiscard]] bool is_written(const TensorRange& range);
  void set_written(const TensorRange& range);

  /// Finds the first of `columns` contiguous free columns; nothing if there is no room.
  [[nodiscard]] std::optional<std::size_t> room_for(std::size_t columns) const;
  void allocate(const TensorAllocation& allocation);
  /// Frees columns; false if they were not allocated together.
  bool free(std::size_t first, std::size_t columns);
  [[nodiscard]] bool is_allocated(std::size_t first, std::size_t columns) const;
  [[nodiscard]] const std::vector<TensorAllocation>& allocations() const { return allocations_; }
  /// Formats the allocated columns, such as "32 to 63, 128 to 255".
  [[nodiscard]] std::string text() const;

  std::size_t last_asked =
      kTensorColumns;  // columns of the last alloc; a later alloc must not ask for more
  const Op* relinquished_by = nullptr;   // after it no alloc is allowed
  TensorQueue queue{};                   // for a pair, only that of the block of even rank is used
  std::deque<PairOperation> together{};  // pending operations of a pair, at the block of even rank
  std::array<std::size_t, 2> come{};     // how many of the pair's operations each block has begun
  /// Columns that the pair's other block has deallocated and this one has not yet.
  std::vector<TensorAllocation> given_back_by_other{};
  races::TensorShadow shadow{};

 private:
  std::vector<std::uint32_t> words_;  // empty before the first use
  std::vector<std::uint8_t> written_;
  std::vector<TensorAllocation> allocations_;
};

}  // namespace emu
