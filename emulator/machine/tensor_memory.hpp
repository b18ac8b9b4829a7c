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
  std::array<bool, 2> has_arrived{};   // whether each block has arrived
  std::optional<std::size_t> first{};  // first allocated column
};

/// Queue of the operations of tensor cores, in order of issue, for a block or a pair of blocks.
struct TensorQueue {
  std::uint64_t issued_count = 0;
  std::uint64_t finished_count = 0;
};

class TensorMemory {
 public:
  /// Words, indexed by tensor_place, and their initialisation flags: 0 or 1.
  [[nodiscard]] std::span<std::uint32_t> words();
  [[nodiscard]] std::span<std::uint8_t> written();
  [[nodiscard]] bool is_written(const TensorRange& range);
  void set_written(const TensorRange& range);

  /// Finds the first of `columns` contiguous free columns; nothing if there is no room.
  [[nodiscard]] std::optional<std::size_t> find_free_columns(std::size_t columns) const;
  void allocate(const TensorAllocation& allocation);
  /// Frees columns; false if they were not allocated together.
  bool free(std::size_t first, std::size_t columns);
  [[nodiscard]] bool is_allocated(std::size_t first, std::size_t columns) const;
  [[nodiscard]] const std::vector<TensorAllocation>& allocations() const { return allocations_; }
  /// Formats the allocated columns, such as "32 to 63, 128 to 255".
  [[nodiscard]] std::string text() const;

  std::size_t last_columns =
      kTensorColumns;  // columns of the last alloc; a later alloc must not request more
  const Op* relinquished_by = nullptr;  // relinquish_alloc_permit, after which no alloc is allowed
  TensorQueue queue{};                  // for a pair, only that of the block of even rank is used
  std::deque<PairOperation>
      pair_operations{};  // pending operations of a pair, at the block of even rank
  std::array<std::size_t, 2>
      begun_operations{};  // number of the pair's operations that each block has begun
  /// Columns that the pair's other block has deallocated, but this block has not yet.
  std::vector<TensorAllocation> deallocated_by_peer{};
  races::TensorShadow shadow{};

 private:
  std::vector<std::uint32_t> words_;  // empty before the first use
  std::vector<std::uint8_t> written_;
  std::vector<TensorAllocation> allocations_;
};

}  // namespace emu
