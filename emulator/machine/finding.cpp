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
    case FindingKind::kRace:
      return "race";
    case FindingKind::kNoProxyFence:
      return "no proxy fence";
    case FindingKind::kNoTensorFence:
      return "no tensor fence";
  }
  return "";
}

std::string Finding::text() const {
  std::string text =
      fmt::format("{}: {}: {} at line {}{}: {} [block {}, warp {}, lanes {:#010x}]", kernel,
                  name_of(kind), instruction, line, source.empty() ? "" : ", " + source, message,
                  fmt::join(block, ","), warp, lanes);
  if (other.has_value()) {
    text += fmt::format("; the earlier one: {}: {} at line {}{} [block {}, warp {}]", other->kernel,
                        other->instruction, other->line,
                        other->source.empty() ? "" : ", " + other->source,
                        fmt::join(other->block, ","), other->warp);
  }
  return text;
}

}  // namespace emu
