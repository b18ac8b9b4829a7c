// Asynchronous bulk copies of the TMA between global and shared memory: piece by piece, in any
// order, concurrently with the warps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "emulator/machine/async_work.hpp"
#include "emulator/machine/tensor_map.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/operations/atomic_values.hpp"
#include "emulator/operations/memory.hpp"

namespace emu {

/// Source and destination of a bulk copy, and the lane that started it.
struct BulkCopy {
  Warp& warp;
  const Op& op;
  int lane = 0;
  std::vector<CopyPiece> pieces{};  // their shared addresses are offsets in a block's memory
  TensorMapDesc map{};              // swizzle and fill of the box; default for plain bytes
  Block* source = nullptr;  // block whose shared memory a load reads, at the pieces' `global`
  AtomicCode reduction{};   // of a reduction: how it combines elements with the destination's

  [[nodiscard]] bool reduces() const { return reduction.global != nullptr; }
};

/// Calls use(offset in shared memory, offset in the piece) for each unit of the piece.
template <typename Use>
void for_each_unit(const BulkCopy& copy, const CopyPiece& piece, Use&& use) {
  for (std::uint32_t i = 0; i < piece.bytes; i += kBoxUnit) {
    use(swizzled_address(piece.shared + i, copy.map.swizzle), i);
  }
}
/// Resolves the part of the piece that is inside the tensor, in global memory or in the source's
/// shared memory.
Memory resolve_global(const BulkCopy& copy, const CopyPiece& piece);

/// Destination block of a load, and the block whose mbarrier counts the bytes.
struct BulkTarget {
  std::uint32_t rank = 0;
  std::uint32_t mbarrier_rank = 0;
};

/// Load from global to shared memory of one block, or of several (multicast). Until the copy is
/// complete, the destination counts as uninitialised; the mbarrier of each target counts the bytes
/// that have arrived.
class BulkLoad : public AsyncWork {
 public:
  /// `mbarrier` is the offset of the mbarrier in the shared memory of each target's mbarrier_rank.
  BulkLoad(BulkCopy copy, std::span<const BulkTarget> targets, std::uint32_t mbarrier);

  bool step(std::mt19937_64& random) override;
  [[nodiscard]] bool needs(const Block& block) const override;

 private:
  struct Target {
    Block& block;
    Block& counter;                       // block whose mbarrier counts the bytes
    std::size_t remaining = 0;            // pieces that have not arrived
    std::uint32_t uncounted = 0;          // bytes that have arrived but are not yet counted
    std::vector<std::uint8_t> written{};  // initialisation flags of the destination
  };

  void write_piece(Target& target, std::size_t number);
  void finish(const Target& target);
  void count(Target& target);

  BulkCopy copy_;
  std::uint32_t mbarrier_;
  std::vector<Target> targets_;
  std::vector<std::size_t> remaining_;  // indices of pieces to copy: piece * targets + target
};

/// Store from the block's own shared memory to global memory. Each piece is first read and later
/// written; until it is written the destination counts as uninitialised.
class BulkStore : public AsyncWork {
 public:
  BulkStore(BulkCopy copy, std::shared_ptr<BulkProgress> progress);

  bool step(std::mt19937_64& random) override;
  [[nodiscard]] bool needs(const Block& block) const override;

 private:
  void read(std::size_t number);
  void write(std::size_t number);

  BulkCopy copy_;
  std::shared_ptr<BulkProgress> progress_;
  std::vector<std::byte> bytes_;  // data that has been read
  std::vector<std::uint8_t> written_;
  std::vector<std::size_t> unread_;
  std::vector<std::size_t> unwritten_;  // pieces that have been read and not written
};

}  // namespace emu
