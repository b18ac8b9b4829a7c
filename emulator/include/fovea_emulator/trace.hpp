// Trace of a run: events in the order of execution.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] emu {

enum class TraceKind : std::uint8_t {
  kRun,     // a warp executes an operation
  kWait,    // the warp blocks at the operation
  kGoOn,    // the warp can continue
  kCopy,    // bytes of a cp.async are copied
  kWork,    // asynchronous work (a TMA copy, a matrix product) does a step
  kWorkEnd  // asynchronous work has completed
};

/// Returns the verb for a kind in a trace, such as "waits"; "" for kRun.
std::string_view name_of(TraceKind kind);

struct TraceEvent {
  TraceKind kind = TraceKind::kRun;
  std::uint64_t turn = 0;  // number of the scheduler's turn
  std::uint64_t grid = 0;  // number of the grid since the device's creation, from 1
  std::string_view kernel{};
  std::array<std::uint32_t, 3> block{};
  int warp = 0;  // warp that executes the operation or has started the work
  std::uint32_t lanes = 0;
  int line = 0;                    // line of the PTX
  std::string_view instruction{};  // opcode
  /// Number of 128-byte passes of an ld or st: lines of global memory, or wavefronts of shared
  /// memory (as in Nsight Compute), where different words of one bank are served one after the
  /// other.
  std::uint32_t passes = 0;

  /// Formats the event as one line, in the order of the members, without the passes.
  [[nodiscard]] std::string text() const;
};

/// Receives each event before its effects, except that kWorkEnd, kWait and kGoOn follow them. The
/// views are valid during the call only.
using TraceFunction = std::function<void(const TraceEvent&)>;

}  // namespace emu
