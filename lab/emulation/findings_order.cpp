// Order of findings, causes before what may follow from them, and one finding for each line.
#include "lab/emulation/findings_order.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

#include <fmt/format.h>

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

template <typename Access>
std::string line_of(const Access& access) {
  return access.source.empty() ? fmt::format("{}", access.line)
                               : std::string(source_line(access.source));
}

}  // namespace

void put_causes_first(std::vector<emu::Finding>& findings) {
  std::ranges::stable_sort(findings, {}, rank_of);
}

void say_what_raises_limits(std::vector<emu::Finding>& findings) {
  for (emu::Finding& finding : findings) {
    if (finding.kind == emu::FindingKind::kNoProgress) {
      finding.message += "; --most-operations allows more";
    }
  }
}

std::string_view source_line(std::string_view source) {
  return source.substr(0, std::min(source.find(" (inlined at "), source.find(" (inside ")));
}

std::string line_key(const emu::Finding& finding) {
  return fmt::format("{}\n{}\n{}\n{}", emu::name_of(finding.kind), finding.kernel, line_of(finding),
                     finding.other ? line_of(*finding.other) : "");
}

std::vector<emu::Finding> merged_by_line(const std::vector<emu::Finding>& findings) {
  std::vector<emu::Finding> merged;
  std::map<std::string, std::size_t> places;  // by key, in `merged`
  for (const emu::Finding& finding : findings) {
    const auto [place, is_new] = places.try_emplace(line_key(finding), merged.size());
    if (is_new) {
      merged.push_back(finding);
    } else {
      merged[place->second].count += finding.count;
    }
  }
  return merged;
}

}  // namespace fovea::emulation
