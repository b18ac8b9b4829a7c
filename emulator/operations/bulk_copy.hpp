// Asynchronous copies of the TMA between global and shared memory: piece by piece, in any order,
// while the warps that have started them go on.
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
#include "emulator/operations/memory.hpp"

namespace emu {

/// What is copied, and which lane has started it.
struct BulkCopy {
  Warp& warp;
  const Op& op;
  int lane = 0;
  std::vector<CopyPiece> pieces{};  // their shared addresses are offsets in a block's memory
  TensorMapDesc map{};              // its swizzle and fill; of plain bytes, the default
};

/// Calls use(offset in shared memory, offset in the piece) for each unit of the piece.
template <typename Use>
void for_each_unit(const BulkCopy& copy, const CopyPiece& piece, Use&& use) {
  for (std::uint32_t i = 0; i < piece.bytes; i += kBoxUnit) {
    use(swizzled(piece.shared + i, copy.map.swizzle), i);
  }
}
/// Resolves the bytes of the piece that are in global memory.
Memory global_part(const BulkCopy& copy, const CopyPiece& piece);

/// A block of the cluster that a load goes to, and the one whose mbarrier counts its bytes.
struct BulkTarget {
  std::uint32_t rank = 0;
  std::uint32_t mbarrier_rank = 0;
};

/// Load from global to shared memory, of one block or the same of several. Until all has come, the
/// destination counts as not written; bytes that have come are counted by the mbarrier of each
/// target.
class BulkLoad : public AsyncWork {
 public:
  /// `mbarrier`: its offset in the shared memory of each target's mbarrier_rank.
  BulkLoad(BulkCopy copy, std::span<const BulkTarget> targets, std::uint32_t mbarrier);

  bool step(std::mt19937_64& random) override;
  [[nodiscard]] bool needs(const Block& block) const override;

 private:
  struct Target {
    Block& block;
    Block& counter;                       // whose mbarrier counts
    std::size_t left = 0;                 // pieces that have not come
    std::uint32_t uncounted = 0;          // bytes that have come
    std::vector<std::uint8_t> written{};  // whether those bytes were ever written, where they were
  };

  void land(Target& target, std::size_t number);
  void finish(const Target& target);
  void count(Target& target);

  BulkCopy copy_;
  std::uint32_t mbarrier_;
  std::vector<Target> targets_;
  std::vector<std::size_t> left_;  // piece * targets + target
};

/// Store from the block's own shared memory to global memory. Each piece is read some time and
/// written some time later; until then the destination counts as not written.
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
  std::vector<std::byte> bytes_;  // that were read
  std::vector<std::uint8_t> written_;
  std::vector<std::size_t> unread_;
  std::vector<std::size_t> unwritten_;  // but read
};

}  // namespace emu
