// Findings of a run: merged, ignored, counted.
#include "emulator/machine/finding_log.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace emu {
namespace {

// Whether a source place, "dir/file.cu:12 (inlined at ...)", is at the place "file.cu:12".
bool is_source_at(std::string_view source, std::string_view place) {
  for (std::size_t begin = source.find(place); begin != std::string_view::npos;
       begin = source.find(place, begin + 1)) {
    const std::size_t end = begin + place.size();
    const bool begins = begin == 0 || source[begin - 1] == '/' || source[begin - 1] == ' ';
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
  if (count_ignored(finding)) {
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

bool FindingLog::count_ignored(const Finding& finding) {
  bool is_ignored = false;
  report_.ignored_by.resize(options_.ignored.size());
  for (std::size_t i = 0; i < options_.ignored.size(); ++i) {
    const IgnoredFinding& ignored = options_.ignored[i];
    const bool matches =
        (!ignored.kind.has_value() || *ignored.kind == finding.kind) &&
        (is_at(ignored, finding.line, finding.source) ||
         (finding.other.has_value() && is_at(ignored, finding.other->line, finding.other->source)));
    report_.ignored_by[i] += matches ? 1 : 0;
    is_ignored = is_ignored || matches;
  }
  return is_ignored;
}

Finding* FindingLog::find_same(const Finding& finding) {
  const auto line_of_other = [](const Finding& accused) {
    return accused.other ? accused.other->line : 0;
  };
  const auto same = std::ranges::find_if(report_.findings, [&](const Finding& earlier) {
    return earlier.kind == finding.kind && earlier.line == finding.line &&
           line_of_other(earlier) == line_of_other(finding) && earlier.kernel == finding.kernel;
  });
  return same == report_.findings.end() ? nullptr : &*same;
}

}  // namespace emu
