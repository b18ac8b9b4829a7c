// Asynchronous work that runs concurrently with the warps: TMA copies and matrix products.
#pragma once

#include <random>

#include "emulator/program/lanes.hpp"

namespace emu {

class Block;
class Warp;
struct Op;

class AsyncWork {
 public:
  /// Findings about the work name the warp, the operation and the lanes that started it.
  AsyncWork(Warp& warp, const Op& op, Lanes lanes) : warp_(warp), op_(op), lanes_(lanes) {}
  virtual ~AsyncWork() = default;
  AsyncWork(const AsyncWork&) = delete;
  AsyncWork& operator=(const AsyncWork&) = delete;

  /// False while the work waits for earlier work.
  [[nodiscard]] virtual bool can_step() const { return true; }
  /// Does one step of the work; returns true when it has completed.
  virtual bool step(std::mt19937_64& random) = 0;
  /// Whether the work will still access the block's shared memory or mbarriers, so that the block
  /// must not end yet.
  [[nodiscard]] virtual bool needs(const Block& block) const = 0;

  [[nodiscard]] Warp& warp() const { return warp_; }
  [[nodiscard]] const Op& op() const { return op_; }
  [[nodiscard]] Lanes lanes() const { return lanes_; }

 private:
  Warp& warp_;
  const Op& op_;
  Lanes lanes_;
};

}  // namespace emu
