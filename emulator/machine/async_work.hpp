// Work that goes on beside the warps: copies of the TMA, matrix products of a warpgroup.
#pragma once

#include <random>

#include "emulator/program/lanes.hpp"

namespace emu {

class Block;
class Warp;
struct Op;

class AsyncWork {
 public:
  /// The warp, the operation and the lanes that have started it: findings of it name them.
  AsyncWork(Warp& warp, const Op& op, Lanes lanes) : warp_(warp), op_(op), lanes_(lanes) {}
  virtual ~AsyncWork() = default;
  AsyncWork(const AsyncWork&) = delete;
  AsyncWork& operator=(const AsyncWork&) = delete;

  /// False while it waits for work before it.
  [[nodiscard]] virtual bool can_step() const { return true; }
  /// Does a part of it; true when it has come to its end.
  virtual bool step(std::mt19937_64& random) = 0;
  /// Whether it has still to read or write the block's shared memory or barriers, which must not
  /// end before.
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
