// trap and brkpt: the kernel reports an error itself.
#include <array>

#include "emulator/machine/warp.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

Outcome run_trap(Warp& warp, const Op& op, Lanes lanes) {
  warp.stop(FindingKind::kTrap, op, lanes, "the kernel executes a trap");
}

void decode_trap(Decoder& decoder) {
  decoder.expect_operands(0);
  decoder.op().code = &run_trap;
}

constexpr std::array kOperations = {
    Operation{"trap", &decode_trap},
    Operation{"brkpt", &decode_trap},
};

}  // namespace

std::span<const Operation> trap_operations() {
  return kOperations;
}

}  // namespace emu
