// Order of findings: causes before what may follow from them.
#include "lab/emulation/findings_order.hpp"

#include <algorithm>

namespace fovea::emulation {
namespace {

bool is_cause(const emu::Finding& finding) {
  switch (finding.kind) {
    case emu::FindingKind::kRace:
    case emu::FindingKind::kRegisterRace:
    case emu::FindingKind::kNoProxyFence:
    case emu::FindingKind::kNoTensorFence:
      return true;
    default:
      return false;
  }
}

}  // namespace

void put_causes_first(std::vector<emu::Finding>& findings) {
  std::ranges::stable_partition(findings, is_cause);
}

std::string_view source_line(std::string_view source) {
  return source.substr(0, std::min(source.find(" (inlined at "), source.find(" (inside ")));
}

}  // namespace fovea::emulation
