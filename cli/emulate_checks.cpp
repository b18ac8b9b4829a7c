// Options of `fovea emulate` about what counts as a finding.
#include "cli/emulate_checks.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::cli {
namespace {

struct Custom {
  const char* option;
  bool emu::RunOptions::* check;
  const char* help;
};

// Options in the order of emu::kHardwareCustoms.
constexpr std::array kCustoms = {
    Custom{"--any-swizzle-start", &emu::RunOptions::check_swizzle_starts,
           "Allow swizzled boxes to begin inside a swizzle pattern, as hardware does"},
    Custom{"--late-stores", &emu::RunOptions::check_last_stores,
           "Allow blocks to end while bulk stores still read their shared memory"},
    Custom{"--no-tensor-fences", &emu::RunOptions::check_tensor_fences,
           "Do not require tcgen05.fence where threads synchronise on operations in tensor memory"},
    Custom{"--prompt-warps", &emu::RunOptions::check_late_warps,
           "Never delay a warp that can run, so that none misses a phase of an mbarrier"},
    Custom{"--prompt-commits", &emu::RunOptions::check_late_commits,
           "Allow tcgen05.commit to arrive in all blocks before later operations"},
    Custom{"--unwritten-stores", &emu::RunOptions::check_stored_values,
           "Allow uninitialised values to be stored to global memory"},
    Custom{"--no-init-fences", &emu::RunOptions::check_init_fences,
           "Do not require fence.mbarrier_init behind the initialisation of an mbarrier"},
    Custom{"--relaxed-ends", &emu::RunOptions::check_relaxed_ends,
           "Allow blocks to end behind barrier.cluster.arrive.relaxed"},
    Custom{"--late-zeros", &emu::RunOptions::check_zeroed_accumulators,
           "Allow constants in accumulators behind the wgmma.fence"},
    Custom{"--no-tensor-waits", &emu::RunOptions::check_tensor_waits,
           "Allow registers of a tcgen05.ld to be used before tcgen05.wait::ld"},
    Custom{"--same-stores", &emu::RunOptions::check_same_stores,
           "Allow threads to store the same value to the same place with no order"},
};
static_assert(kCustoms.size() == emu::kHardwareCustoms.size());

constexpr auto kLastKind = emu::FindingKind::kAssertion;

std::string replaced(std::string_view name, char from, char to) {
  std::string changed(name);
  std::ranges::replace(changed, from, to);
  return changed;
}

// Parses the name of a kind as an option has it: "no-proxy-fence".
emu::FindingKind parse_kind(const std::string& option, const std::string& name) {
  if (const auto kind = emu::kind_called(replaced(name, '-', ' '))) {
    if (!emu::can_go_on_behind(*kind)) {
      fail("--ignore {}: a run cannot go on behind this kind of finding", option);
    }
    return *kind;
  }
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(kLastKind); ++i) {
    if (const auto kind = static_cast<emu::FindingKind>(i); emu::can_go_on_behind(kind)) {
      names.push_back(replaced(emu::name_of(kind), ' ', '-'));
    }
  }
  fail("--ignore {}: expected KIND or KIND@LINE, with one of the kinds {}", option,
       fmt::join(names, ", "));
}

emu::IgnoredFinding parse_ignored(const std::string& option) {
  const std::size_t sign = option.find('@');
  emu::IgnoredFinding ignored{.kind = parse_kind(io::printable(option), option.substr(0, sign))};
  if (sign == std::string::npos) {
    return ignored;
  }
  const std::string place = option.substr(sign + 1);
  const char* const end = place.data() + place.size();
  const auto [rest, error] = std::from_chars(place.data(), end, ignored.line);
  if (error == std::errc() && rest == end && ignored.line > 0) {
    return ignored;
  }
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == place.size()) {
    fail("--ignore {}: expected a line of the PTX or FILE:LINE behind the @",
         io::printable(option));
  }
  ignored.line = 0;
  ignored.source = place;
  return ignored;
}

}  // namespace

void EmulateChecks::parse() {
  try {
    for (const std::string& option : ignored) {
      ignored_findings.push_back(parse_ignored(option));
    }
  } catch (const Error& error) {
    throw CLI::ValidationError(error.what());
  }
}

void EmulateChecks::apply(emu::RunOptions& run) const {
  for (std::size_t i = 0; i < kCustoms.size(); ++i) {
    run.*kCustoms.at(i).check = !as_hardware && !let_pass.at(i);
  }
  run.check_races = !no_races;
  run.max_findings = most_findings;
  run.ignored = ignored_findings;
}

void EmulateChecks::say_unused(const std::vector<std::uint64_t>& counts) const {
  for (std::size_t i = 0; i < ignored.size(); ++i) {
    if (i >= counts.size() || counts[i] == 0) {
      say(fmt::format("--ignore {} left out nothing", ignored[i]));
    }
  }
}

void add_emulate_checks(CLI::App& command, EmulateChecks& checks) {
  for (std::size_t i = 0; i < kCustoms.size(); ++i) {
    add_flag(command, kCustoms.at(i).option, checks.let_pass.at(i), kCustoms.at(i).help);
  }
  add_flag(command, "--as-hardware", checks.as_hardware,
           "All of the above: let pass what hardware is known to run");
  add_flag(command, "--no-races", checks.no_races,
           "Do not look for races, missing fences and blocks that end too early");
  add_repeated(command, "--ignore", "KIND@LINE", checks.ignored,
               "Leave out findings of a kind, such as race@120 or no-proxy-fence@kernel.cu:40");
  add_integer(command, "--most-findings", {1, 1000}, checks.most_findings,
              "End a schedule after as many findings; it goes on behind those before");
}

}  // namespace fovea::cli
