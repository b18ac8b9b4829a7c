// Asynchronous work of tensor cores on tensor memory: products, copies from shared memory, and
// arrivals at mbarriers, in order of issue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine/async_work.hpp"
#include "emulator/machine/tensor_memory.hpp"
#include "emulator/operations/tcgen05_product.hpp"
#include "emulator/races/races.hpp"

namespace emu {

/// Work for a block or a pair of blocks. The constructor appends it to their queue.
class TensorWork : public AsyncWork {
 public:
  TensorWork(Warp& warp, const Op& op, int lane, std::size_t blocks);

  [[nodiscard]] bool can_step() const override { return queue_.finished_count + 1 == number_; }
  [[nodiscard]] bool needs(const Block& block) const override;

 protected:
  [[nodiscard]] std::size_t blocks() const { return blocks_; }
  [[nodiscard]] Block& block(std::size_t number) const;
  void finish() { ++queue_.finished_count; }
  // End the run with a finding unless the whole range is initialised.
  void require_written(const SharedRange& range, std::string_view name) const;
  void require_written(const TensorRange& range, std::string_view name) const;

 private:
  std::size_t blocks_;
  TensorQueue& queue_;
  std::uint64_t number_;
};

/// tcgen05.mma, which reads its sources in step().
class TensorProduct : public TensorWork {
 public:
  TensorProduct(Warp& warp, const Op& op, int lane, const UmmaProduct& product,
                UmmaAccesses accesses);
  bool step(std::mt19937_64& random) override;

 private:
  UmmaProduct product_;
  UmmaAccesses accesses_;
};

/// Unit of a tcgen05.cp: copies 16 bytes of each block's shared memory to four words of its tensor
/// memory.
struct TensorCopyUnit {
  std::uint32_t shared = 0;
  std::size_t lane = 0;
  std::size_t column = 0;
};

class TensorCopy : public TensorWork {
 public:
  TensorCopy(Warp& warp, const Op& op, int lane, std::size_t blocks,
             std::vector<TensorCopyUnit> units);
  bool step(std::mt19937_64& random) override;

 private:
  std::vector<TensorCopyUnit> units_;
};

/// tcgen05.commit: arrives at an mbarrier in each of these blocks, in any order. Unless
/// RunOptions::check_late_commits is off, its arrivals at other blocks' mbarriers may be delayed
/// past later work in the queue.
class TensorCommit : public TensorWork {
 public:
  TensorCommit(Warp& warp, const Op& op, int lane, std::size_t blocks,
               std::vector<std::uint64_t> mbarriers, races::Order released, races::Access access);
  [[nodiscard]] bool can_step() const override { return has_left_queue_ || TensorWork::can_step(); }
  bool step(std::mt19937_64& random) override;
  [[nodiscard]] bool needs(const Block& block) const override;

 private:
  [[nodiscard]] bool is_own(std::uint64_t mbarrier) const;  // the mbarrier is in the thread's block

  int lane_;
  bool has_left_queue_ = false;           // has left the queue
  std::vector<std::uint64_t> mbarriers_;  // addresses in the cluster's shared memory
  races::Order released_;
  races::Access access_;
};

}  // namespace emu
