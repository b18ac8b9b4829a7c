// What ran in which order.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] emu {

enum class TraceKind : std::uint8_t {
  kRun,     // a warp runs an operation
  kWait,    // it cannot go on with it
  kGoOn,    // it can
  kCopy,    // bytes of a cp.async are copied
  kWork,    // work beside the warps (of the TMA, a matrix product) does a part
  kWorkEnd  // it has done all of it
};

/// "waits"; "" for kRun
std::string_view name_of(TraceKind kind);

struct TraceEvent {
  TraceKind kind = TraceKind::kRun;
  std::uint64_t turn = 0;  // in which everyone who can go on does, or some
  std::uint64_t grid = 0;  // of the device, from 1
  std::string_view kernel{};
  std::array<std::uint32_t, 3> block{};
  int warp = 0;  // that runs it or has started it
  std::uint32_t lanes = 0;
  int line = 0;                    // of the PTX
  std::string_view instruction{};  // its opcode
  /// Passes of 128 bytes that an ld or st takes that runs. They are lines of global
  /// memory, or rows of the banks of shared memory, where words of one bank wait for each other
  /// (the wavefronts of Nsight Compute).
  std::uint32_t passes = 0;

  /// One line, with the columns in that order, without the passes.
  [[nodiscard]] std::string text() const;
};

/// Is told of each event before its effects, but for kWorkEnd, kWait and kGoOn. The views hold for
/// the call.
using TraceFunction = std::function<void(const TraceEvent&)>;

}  // namespace emu
