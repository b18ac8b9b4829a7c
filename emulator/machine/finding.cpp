// What the emulator finds wrong with a kernel, in words.
#include "fovea_emulator/finding.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace emu {

std::string_view name_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::kOutOfBounds:
      return "out of bounds";
    case FindingKind::kMisaligned:
      return "misaligned";
    case FindingKind::kUninitialized:
      return "uninitialised";
    case FindingKind::kDivergent:
      return "divergent";
    case FindingKind::kBarrierMisuse:
      return "barrier misuse";
    case FindingKind::kRegisterRace:
      return "register race";
    case FindingKind::kLifetime:
      return "lifetime";
    case FindingKind::kIllegalOperand:
      return "illegal operand";
    case FindingKind::kIllegalTensorMap:
      return "illegal tensor map";
    case FindingKind::kDeadlock:
      return "deadlock";
    case FindingKind::kNoProgress:
      return "no progress";
    case FindingKind::kTrap:
      return "trap";
  }
  return "";
}

std::string Finding::text() const {
  return fmt::format("{}: {}: {} at line {}{}: {} [block {}, warp {}, lanes {:#010x}]", kernel,
                     name_of(kind), instruction, line, source.empty() ? "" : ", " + source, message,
                     fmt::join(block, ","), warp, lanes);
}

}  // namespace emu
