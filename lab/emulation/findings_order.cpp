// Order of findings: causes before what may follow from them.
#include "lab/emulation/findings_order.hpp"

#include <algorithm>

namespace fovea::emulation {
namespace {

// Whether a race is between lanes of a warp. The copies that a warp starts are none of its lanes.
bool is_within_warp(const emu::Finding& finding) {
  return finding.kind == emu::FindingKind::kRace && finding.other &&
         finding.other->kernel == finding.kernel && finding.other->block == finding.block &&
         finding.other->warp == finding.warp && !finding.instruction.starts_with("cp.") &&
         !finding.other->instruction.starts_with("cp.");
}

int rank_of(const emu::Finding& finding) {
  switch (finding.kind) {
    case emu::FindingKind::kRace:
    case emu::FindingKind::kRegisterRace:
    case emu::FindingKind::kNoProxyFence:
    case emu::FindingKind::kNoTensorFence:
      return is_within_warp(finding) ? 1 : 0;
    default:
      return 2;
  }
}

}  // namespace

void put_causes_first(std::vector<emu::Finding>& findings) {
  std::ranges::stable_sort(findings, {}, rank_of);
}

std::string_view source_line(std::string_view source) {
  return source.substr(0, std::min(source.find(" (inlined at "), source.find(" (inside ")));
}

}  // namespace fovea::emulation
