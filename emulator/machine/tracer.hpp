// Tells what runs to who wants to know.
#pragma once

#include <cstdint>

#include "emulator/machine/lanes.hpp"
#include "fovea_emulator/trace.hpp"

namespace emu {

class Warp;
struct Op;

class Tracer {
 public:
  explicit Tracer(const TraceFunction& tell) : tell_(tell) {}

  void begin_turn() { ++turn_; }
  void record(TraceKind kind, Warp& warp, const Op& op, Lanes lanes) const;

 private:
  const TraceFunction& tell_;
  std::uint64_t turn_ = 0;
};

}  // namespace emu
