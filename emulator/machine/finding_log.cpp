// Findings of a run: merged, ignored, counted.
#include "emulator/machine/finding_log.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace emu {
namespace {

// Whether a source place, "dir/file.cu:12 (inlined at ...)", is at the place "file.cu:12".
bool is_source_at(std::string_view source, std::string_view place) {
  for (std::size_t at = source.find(place); at != std::string_view::npos;
       at = source.find(place, at + 1)) {
    const std::size_t end = at + place.size();
    const bool begins = at == 0 || source[at - 1] == '/' || source[at - 1] == ' ';
    const bool ends = end == source.size() || source[end] == ' ' || source[end] == ')';
    if (begins && ends) {
      return true;
    }
  }
  return false;
}

bool is_at(const IgnoredFinding& ignored, int line, std::string_view source) {
  return ignored.source.empty() ? ignored.line == 0 || ignored.line == line
                                : is_source_at(source, ignored.source);
}

}  // namespace

void FindingLog::add(Finding finding) {
  if (is_ignored(finding)) {
    ++report_.ignored;
    return;
  }
  if (Finding* const same = find_same(finding); same != nullptr) {
    ++same->count;
    return;
  }
  report_.findings.push_back(std::move(finding));
  if (report_.findings.size() >= options_.max_findings) {
    throw Stop{};
  }
}

void FindingLog::add_last(Finding finding) {
  if (Finding* const same = find_same(finding); same != nullptr) {
    ++same->count;
    return;
  }
  report_.findings.push_back(std::move(finding));
}

bool FindingLog::is_ignored(const Finding& finding) const {
  return std::ranges::any_of(options_.ignored, [&](const IgnoredFinding& ignored) {
    return (!ignored.kind.has_value() || *ignored.kind == finding.kind) &&
           (is_at(ignored, finding.line, finding.source) ||
            (finding.other.has_value() &&
             is_at(ignored, finding.other->line, finding.other->source)));
  });
}

Finding* FindingLog::find_same(const Finding& finding) {
  const auto line_of_other = [](const Finding& of) { return of.other ? of.other->line : 0; };
  const auto same = std::ranges::find_if(report_.findings, [&](const Finding& earlier) {
    return earlier.kind == finding.kind && earlier.line == finding.line &&
           line_of_other(earlier) == line_of_other(finding) && earlier.kernel == finding.kernel;
  });
  return same == report_.findings.end() ? nullptr : &*same;
}

}  // namespace emu
