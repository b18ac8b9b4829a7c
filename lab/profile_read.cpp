// Reads Nsight Compute's pages: counters by name, and samples by instruction.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "lab/profile.hpp"

namespace fovea::lab {
namespace {

using Row = std::vector<std::string>;

/// Rows of comma-separated values; a quoted field may hold commas, never a line's end.
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

double number(std::string text) {
  std::erase(text, ',');
  return std::atof(text.c_str());
}

/// One kernel's counters by name, as plain numbers and in units of one.
class Counters {
 public:
  Counters(const Row& names, const Row& units, const Row& values) {
    for (std::size_t i = 0; i < std::min({names.size(), units.size(), values.size()}); ++i) {
      values_[names[i]] = {values[i], units[i]};
    }
  }
  /// Throws when this ncu has no such counter: nothing counted is not the same as zero.
  [[nodiscard]] double operator()(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) {
      fail("this ncu has no counter {}: its report cannot be read", name);
    }
    return number(found->second.first) * scale_of(found->second.second);
  }
  [[nodiscard]] bool has(const std::string& name) const { return values_.contains(name); }
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? "" : found->second.first;
  }
  [[nodiscard]] const auto& all() const { return values_; }

 private:
  static double scale_of(std::string_view unit) {
    static const std::map<std::string_view, double> units = {
        {"%", 0.01},          {"ns", 1e-9},      {"us", 1e-6},      {"ms", 1e-3},
        {"nsecond", 1e-9},    {"usecond", 1e-6}, {"msecond", 1e-3}, {"Kbyte/block", 1e3},
        {"Mbyte/block", 1e6}, {"Kbyte/s", 1e3},  {"Mbyte/s", 1e6},  {"Gbyte/s", 1e9},
        {"Tbyte/s", 1e12}};
    const auto found = units.find(unit);
    return found == units.end() ? 1.0 : found->second;
  }

  std::map<std::string, std::pair<std::string, std::string>> values_;
};

/// ncu's name of a stall reason in words; the short names are those of the source page.
struct Stall {
  std::string_view counter, column, words;
};
constexpr std::array kStalls = {
    Stall{"long_scoreboard", "long_sb", "data from L1, L2 or device memory"},
    Stall{"short_scoreboard", "short_sb", "shared memory or a special function"},
    Stall{"barrier", "barrier", "other warps at a barrier"},
    Stall{"gmma", "gmma", "the matrix units"},
    Stall{"wait", "wait", "an instruction's fixed latency"},
    Stall{"math_pipe_throttle", "math", "a busy arithmetic unit"},
    Stall{"mio_throttle", "mio", "the queue to shared memory"},
    Stall{"lg_throttle", "lg", "the queue to global memory"},
    Stall{"tex_throttle", "tex", "the queue to the texture unit"},
    Stall{"branch_resolving", "branch_resolving", "a branch, as when polling a barrier in memory"},
    Stall{"no_instruction", "no_inst", "instructions to be fetched"},
    Stall{"not_selected", "not_selected", "their turn: another warp issued"},
    Stall{"dispatch_stall", "dispatch", "the dispatcher"},
    Stall{"membar", "membar", "a memory fence"},
    Stall{"drain", "drain", "stores to drain"},
    Stall{"imc_miss", "imc", "constants to be fetched"},
    Stall{"sleeping", "sleep", "a nanosleep"},
    Stall{"misc", "misc", "something else"},
};

/// Reasons in words with their shares of all waiting warps, the largest first. A GPU has some of
/// them: those of Hopper's matrix units are of no other.
std::vector<std::pair<std::string, double>> stalls_of(const Counters& counters) {
  std::vector<std::pair<std::string, double>> stalls;
  double sum = 0;
  for (const Stall& stall : kStalls) {
    const std::string name = "smsp__average_warps_issue_stalled_" + std::string(stall.counter) +
                             "_per_issue_active.ratio";
    if (counters.has(name)) {
      stalls.emplace_back(stall.words, counters(name));
      sum += stalls.back().second;
    }
  }
  if (stalls.empty()) {
    fail("this ncu has no counter smsp__average_warps_issue_stalled_*: its report cannot be read");
  }
  for (auto& [name, value] : stalls) {
    value = sum > 0 ? value / sum : 0.0;
  }
  std::ranges::sort(stalls, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::erase_if(stalls, [](const auto& stall) { return stall.second < 0.005; });
  return stalls;
}

Profile profile_of(const Counters& counters) {
  Profile profile;
  profile.kernel = counters.text("Kernel Name");
  profile.seconds = counters("gpu__time_duration.sum");
  profile.tensor = counters("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active");
  profile.issue = counters("smsp__issue_active.avg.pct_of_peak_sustained_active");
  profile.dram = counters("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed");
  profile.dram_bytes_per_second = counters("dram__bytes.sum.per_second");
  profile.l2 = counters("lts__throughput.avg.pct_of_peak_sustained_elapsed");
  profile.shared = counters("l1tex__throughput.avg.pct_of_peak_sustained_active");
  profile.occupancy = counters("sm__warps_active.avg.pct_of_peak_sustained_active");
  profile.occupancy_limit = counters("sm__maximum_warps_per_active_cycle_pct");
  profile.registers = static_cast<int>(counters("launch__registers_per_thread"));
  profile.shared_bytes = counters("launch__shared_mem_per_block_dynamic") +
                         counters("launch__shared_mem_per_block_static");
  profile.fma = counters("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active");
  profile.shared_accesses = counters("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum");
  profile.bank_conflicts = counters("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum");
  double least = 64;  // more blocks than any SM holds
  for (const auto& [counter, words] :
       {std::pair{"registers", "registers"}, std::pair{"shared_mem", "shared memory"},
        std::pair{"warps", "threads a block"}, std::pair{"blocks", "blocks"},
        std::pair{"barriers", "barriers"}}) {
    const std::string name = std::string("launch__occupancy_limit_") + counter;
    const double blocks = counters.has(name) ? counters(name) : 0.0;  // older ones lack some
    if (blocks > 0 && blocks < least) {
      least = blocks;
      profile.occupancy_reason = words;
    }
  }
  profile.ctas_per_sm = static_cast<int>(least);
  profile.stalls = stalls_of(counters);
  return profile;
}

/// The instructions of one kernel on the source page, by address, with what warps waited for.
std::vector<HotSpot> spots_of(const std::vector<Row>& rows, std::size_t header) {
  const Row& names = rows[header];
  const auto column = [&](std::string_view name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  const std::size_t source = column("Source");
  const std::size_t samples = column("# Samples");
  for (const auto& [at, name] : {std::pair{source, "Source"}, std::pair{samples, "# Samples"}}) {
    if (at == names.size()) {
      fail("this ncu's source page has no column '{}': it cannot be read", name);
    }
  }
  if (std::ranges::none_of(kStalls, [&](const Stall& stall) {
        return column("stall_" + std::string(stall.column)) < names.size();
      })) {
    fail("this ncu's source page has no column 'stall_*': it cannot be read");
  }
  std::vector<HotSpot> spots;
  for (std::size_t i = header + 1; i < rows.size() && rows[i].size() == names.size(); ++i) {
    HotSpot spot;
    spot.instruction = rows[i][source];
    spot.instruction.erase(0, spot.instruction.find_first_not_of(' '));
    spot.share = number(rows[i][samples]);
    double most = 0;
    for (const Stall& stall : kStalls) {
      const std::size_t at = column("stall_" + std::string(stall.column));
      if (at < names.size() && number(rows[i][at]) > most) {
        most = number(rows[i][at]);
        spot.reason = stall.words;
      }
    }
    spots.push_back(std::move(spot));
  }
  double sum = 0;
  for (const HotSpot& spot : spots) {
    sum += spot.share;
  }
  for (HotSpot& spot : spots) {
    spot.share = sum > 0 ? spot.share / sum : 0.0;
  }
  return spots;
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
    profiles.push_back(profile_of(Counters(*header, *(header + 1), *row)));
  }
  const std::vector<Row> lines = parse_csv(source);
  std::size_t next = 0;
  for (std::size_t i = 0; i < lines.size() && next < profiles.size(); ++i) {
    if (lines[i].size() > 2 && lines[i][0] == "Address") {
      profiles[next++].hot_spots = spots_of(lines, i);
    }
  }
  return profiles;
}

}  // namespace fovea::lab
