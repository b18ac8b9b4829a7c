// Parses the counters and the samples in Nsight Compute's pages.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "lab/profile/figures.hpp"
#include "lab/profile/profile.hpp"
#include "lab/system/largest_first.hpp"

namespace fovea::lab {
namespace {

using Row = std::vector<std::string>;

/// Parses CSV rows; quoted fields may contain commas, but no line breaks.
std::vector<Row> parse_csv(std::string_view text) {
  std::vector<Row> rows;
  Row row;
  std::string field;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      row.push_back(std::exchange(field, {}));
    } else if (c == '\n') {
      row.push_back(std::exchange(field, {}));
      rows.push_back(std::exchange(row, {}));
      quoted = false;
    } else if (c != '\r') {
      field += c;
    }
  }
  return rows;
}

/// Parses a number. Returns std::nullopt for "", "n/a" and "nan".
std::optional<double> number(std::string text) {
  std::erase(text, ',');
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() || *end != '\0' || !std::isfinite(value) ? std::nullopt
                                                                      : std::optional(value);
}

double count(const std::string& text) {
  return number(text).value_or(0.0);
}

double unit_scale(std::string_view unit) {
  static const std::map<std::string_view, double> units = {
      {"%", 0.01},          {"ns", 1e-9},      {"us", 1e-6},      {"ms", 1e-3},
      {"nsecond", 1e-9},    {"usecond", 1e-6}, {"msecond", 1e-3}, {"Kbyte", 1e3},
      {"Mbyte", 1e6},       {"Gbyte", 1e9},    {"Tbyte", 1e12},   {"Kbyte/block", 1e3},
      {"Mbyte/block", 1e6}, {"Kbyte/s", 1e3},  {"Mbyte/s", 1e6},  {"Gbyte/s", 1e9},
      {"Tbyte/s", 1e12}};
  const auto match = units.find(unit);
  return match == units.end() ? 1.0 : match->second;
}

/// A kernel's counters by name, converted to base units.
class Counters {
 public:
  Counters(const Row& names, const Row& units, const Row& values) {
    for (std::size_t i = 0; i < std::min({names.size(), units.size(), values.size()}); ++i) {
      values_[names[i]] = {values[i], units[i]};
    }
  }
  /// Returns a counter's value. Throws fovea::Error if the GPU or ncu does not support the counter.
  double operator()(const std::string& name) {
    const auto match = values_.find(name);
    if (match == values_.end()) {
      fail("cannot read ncu's report: it has no counter {}", name);
    }
    const auto& [text, unit] = match->second;
    const std::optional<double> value = number(text);
    if (!value.has_value()) {
      fail("this GPU does not support the counter {}: its value is '{}'", name, text);
    }
    return used_[name] = *value * unit_scale(unit);
  }
  [[nodiscard]] bool has(const std::string& name) const { return values_.contains(name); }
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto match = values_.find(name);
    return match == values_.end() ? "" : match->second.first;
  }
  /// Returns the values of the counters read so far.
  [[nodiscard]] const std::map<std::string, double>& used() const { return used_; }

 private:
  std::map<std::string, std::pair<std::string, std::string>> values_;
  std::map<std::string, double> used_;
};

/// A stall reason: ncu's name, its short name on the source page, and a description.
struct Stall {
  std::string_view counter, column, words;
};
constexpr std::array kStalls = {
    Stall{"long_scoreboard", "long_sb", "data from L1, L2 or device memory"},
    Stall{"short_scoreboard", "short_sb", "shared memory or a special function"},
    Stall{"barrier", "barrier", "other warps at a barrier, or wgmma products"},
    Stall{"gmma", "gmma", "the matrix units"},
    Stall{"wait", "wait", "an instruction's fixed latency"},
    Stall{"math_pipe_throttle", "math", "a busy arithmetic unit"},
    Stall{"mio_throttle", "mio", "the queue to shared memory"},
    Stall{"lg_throttle", "lg", "the queue to global memory"},
    Stall{"tex_throttle", "tex", "the queue to the texture unit"},
    Stall{"branch_resolving", "branch_resolving",
          "a branch, such as in a loop that polls a barrier"},
    Stall{"no_instruction", "no_inst", "fetching of instructions"},
    Stall{"not_selected", "not_selected", "selection by the scheduler"},
    Stall{"dispatch_stall", "dispatch", "the dispatcher"},
    Stall{"membar", "membar", "a memory fence"},
    Stall{"drain", "drain", "completion of stores"},
    Stall{"imc_miss", "imc", "fetching of constants"},
    Stall{"sleeping", "sleep", "a nanosleep"},
    Stall{"misc", "misc", "something else"},
};

double ratio(double value, double whole) {
  return whole > 0 ? value / whole : 0.0;
}

/// Returns the shares of waiting warps by reason, without the reason "gmma" if the GPU is not a
/// Hopper.
Shares read_stalls(Counters& counters) {
  Shares stalls;
  double sum = 0;
  for (const Stall& stall : kStalls) {
    const std::string name = "smsp__average_warps_issue_stalled_" + std::string(stall.counter) +
                             "_per_issue_active.ratio";
    if (stall.counter == "gmma" && !counters.has(name)) {
      continue;
    }
    stalls.emplace_back(stall.counter, counters(name));
    sum += stalls.back().second;
  }
  for (auto& [name, value] : stalls) {
    value = ratio(value, sum);
  }
  sort_largest_first(stalls, &Shares::value_type::second);
  return stalls;
}

Profile make_profile(Counters& counters) {
  Profile profile;
  profile.kernel = counters.text("Kernel Name");
  auto& figures = profile.figures;
  for (const FigureSource& source : figure_sources()) {
    const double value = counters(std::string(source.counter));
    figures[std::string(source.info.name)] =
        source.per.empty() ? value : ratio(value, counters(std::string(source.per)));
  }
  figures["shared_bytes"] = profile["shared_static_bytes"] + profile["shared_dynamic_bytes"];
  figures["predicated_off"] =
      1 - ratio(profile["thread_instructions_on"], profile["thread_instructions"]);
  figures["spill_share"] =
      ratio(profile["local_loads"] + profile["local_stores"], profile["instructions"]);
  double min_ctas = 64;  // more CTAs than fit into any SM
  for (const auto& [counter, words] :
       {std::pair{"registers", "registers"}, std::pair{"shared_mem", "shared memory"},
        std::pair{"warps", "threads per CTA"}, std::pair{"blocks", "CTAs"},
        std::pair{"barriers", "barriers"}}) {
    const std::string name = std::string("launch__occupancy_limit_") + counter;
    if (std::string_view(counter) == "barriers" && !counters.has(name)) {
      continue;  // older versions of ncu do not have it
    }
    const double ctas = counters(name);
    if (ctas > 0 && ctas < min_ctas) {
      min_ctas = ctas;
      profile.occupancy_reason = words;
    }
  }
  figures["ctas_per_sm"] = min_ctas;
  figures["ctas_per_sm_registers"] = counters("launch__occupancy_limit_registers");
  profile.stalls = read_stalls(counters);
  for (const auto& [reason, share] : profile.stalls) {
    figures["stall_" + reason] = share;
  }
  profile.counters = counters.used();
  return profile;
}

double stall_share(const Samples& samples, std::string_view reason) {
  const auto match = std::ranges::find(samples.stalls, reason, &Shares::value_type::first);
  return match == samples.stalls.end() ? 0.0 : match->second;
}

/// Distinguishes stalls that ncu merges: on Hopper, it reports waits for products and for the
/// cluster as barrier stalls, too.
void read_waits(Profile& profile) {
  double idle = 0;
  double barrier = 0;
  double product = 0;
  double fence = 0;
  double copy = 0;
  // Number of following instructions whose stalls count as waiting for the fence.
  int after_fence = 0;
  int after_copies = 0;
  for (const Samples& instruction : profile.instructions) {
    const auto is = [&](std::string_view name) {
      return instruction.text.find(name) != std::string::npos;
    };
    after_fence = is("FENCE") || is("MEMBAR") ? 3 : after_fence - 1;
    after_copies = is("DEPBAR.LE SB") ? 3 : after_copies - 1;
    if (is("UCGABAR_WAIT")) {
      idle += instruction.share;
    } else if (is("WARPGROUP.DEPBAR")) {
      product += instruction.share;
    } else {
      barrier += stall_share(instruction, "barrier");
    }
    fence += stall_share(instruction, "membar");
    if (after_fence > 0) {
      fence += instruction.share - stall_share(instruction, "membar") -
               stall_share(instruction, "barrier");
    }
    if (after_copies > 0) {
      copy += stall_share(instruction, "long_scoreboard");
    }
  }
  auto& figures = profile.figures;
  figures["idle_warps"] = idle;
  figures["barrier_wait"] = ratio(barrier, 1 - idle);
  figures["product_wait"] = ratio(product, 1 - idle);
  figures["fence_wait"] = ratio(fence, 1 - idle);
  figures["copy_wait"] = ratio(copy, 1 - idle);
}

/// Parses the source page of one kernel: its instructions by address, with stall reasons.
void read_instructions(const std::vector<Row>& rows, std::size_t header, Profile& profile) {
  const Row& names = rows[header];
  const auto column = [&](std::string_view name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  const auto needed = [&](std::string_view name) {
    const std::size_t index = column(name);
    if (index == names.size()) {
      fail("cannot read ncu's source page: it has no column '{}'", name);
    }
    return index;
  };
  const std::size_t source = needed("Source");
  const std::size_t samples = needed("# Samples");
  const std::size_t executed = needed("Instructions Executed");
  if (std::ranges::none_of(kStalls, [&](const Stall& stall) {
        return column("stall_" + std::string(stall.column)) < names.size();
      })) {
    fail("cannot read ncu's source page: it has no column 'stall_*'");
  }
  double sum = 0;
  double fences = 0;
  for (std::size_t i = header + 1; i < rows.size() && rows[i].size() == names.size(); ++i) {
    Samples instruction;
    instruction.text = rows[i][source];
    instruction.text.erase(0, instruction.text.find_first_not_of(' '));
    instruction.share = count(rows[i][samples]);
    for (const Stall& stall : kStalls) {
      const std::size_t index = column("stall_" + std::string(stall.column));
      if (index < names.size() && count(rows[i][index]) > 0) {
        instruction.stalls.emplace_back(stall.counter, count(rows[i][index]));
      }
    }
    sum += instruction.share;
    if (instruction.text.find("MEMBAR") != std::string::npos ||
        instruction.text.find("FENCE") != std::string::npos) {
      fences += count(rows[i][executed]);
    }
    profile.instructions.push_back(std::move(instruction));
  }
  for (Samples& instruction : profile.instructions) {
    instruction.share = ratio(instruction.share, sum);
    for (auto& [reason, share] : instruction.stalls) {
      share = ratio(share, sum);
    }
  }
  profile.figures["fences"] = fences;
  profile.figures["fence_share"] = ratio(fences, profile["instructions"]);
  read_waits(profile);
}

}  // namespace

std::vector<Profile> read_profile(std::string_view raw, std::string_view source) {
  std::vector<Profile> profiles;
  const std::vector<Row> counters = parse_csv(raw);
  const auto header = std::ranges::find_if(
      counters, [](const Row& row) { return !row.empty() && row.front() == "ID"; });
  if (header == counters.end() || counters.end() - header < 3) {
    return profiles;
  }
  for (auto row = header + 2; row != counters.end() && row->size() == header->size(); ++row) {
    Counters values(*header, *(header + 1), *row);
    profiles.push_back(make_profile(values));
  }
  const std::vector<Row> lines = parse_csv(source);
  std::size_t next = 0;
  for (std::size_t i = 0; i < lines.size() && next < profiles.size(); ++i) {
    if (lines[i].size() > 2 && lines[i][0] == "Address") {
      read_instructions(lines, i, profiles[next++]);
    }
  }
  if (next < profiles.size()) {
    fail("cannot read ncu's source page: it has {} of {} kernels", next, profiles.size());
  }
  return profiles;
}

std::vector<std::string> counters_to_ask() {
  std::vector<std::string> names;
  for (const FigureSource& source : figure_sources()) {
    for (const std::string_view counter : {source.counter, source.per}) {
      // Derived metrics in ncu's sections are not hardware counters.
      if (!counter.empty() && counter.find("launch__") != 0 && counter.find("memory_") != 0 &&
          counter.find("derived__") != 0) {
        names.emplace_back(counter);
      }
    }
  }
  return names;
}

std::string_view stall_in_words(std::string_view reason) {
  const auto* const match = std::ranges::find(kStalls, reason, &Stall::counter);
  return match == kStalls.end() ? reason : match->words;
}

double Profile::operator[](std::string_view figure) const {
  const auto match = figures.find(figure);
  if (match == figures.end()) {
    fail("the profile has no figure '{}'", figure);
  }
  return match->second;
}

}  // namespace fovea::lab
