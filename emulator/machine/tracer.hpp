// Tracer: reports each operation and step of asynchronous work to the caller.
#pragma once

#include <cstdint>

#include "emulator/program/lanes.hpp"
#include "fovea_emulator/trace.hpp"

namespace emu {

class Warp;
struct Op;

class Tracer {
 public:
  /// Counts the passes of a memory access, for TraceEvent::passes.
  using CountPasses = std::uint32_t (*)(const Warp& warp, const Op& op, Lanes lanes);

  Tracer(const TraceFunction& callback, CountPasses count_passes)
      : callback_(callback), count_passes_(count_passes) {}

  void begin_turn() { ++turn_; }
  void record(TraceKind kind, Warp& warp, const Op& op, Lanes lanes) const;

 private:
  const TraceFunction& callback_;
  CountPasses count_passes_;
  std::uint64_t turn_ = 0;
};

}  // namespace emu
