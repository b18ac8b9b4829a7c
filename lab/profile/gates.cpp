// Derives the gates from the model, and evaluates them.
#include "lab/profile/gates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "kernels/archs.hpp"
#include "lab/system/machine.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSystemShared = 1024;  // bytes of shared memory reserved by the system per CTA

/// Returns the operations per clock of an SM's matrix units with two-byte operands; 0 if unknown.
double matrix_rate(int arch) {
  const gpu::Arch* const row = gpu::find_arch(arch, gpu::kArchs);
  return row == nullptr ? 0.0 : 2.0 * row->wide_products;
}

double max_clock(const gpu::DeviceInfo& device) {
  return 1e3 * device.clock_khz;
}

double peak_rate(const Work& work, const Ceilings& ceilings) {
  return work.one_byte ? ceilings.e4m3_flops : ceilings.bf16_flops;
}

/// Formats a figure's value with the unit that its name implies; values of other figures are
/// shares.
std::string in_words(std::string_view figure, double value) {
  if (figure == "seconds") {
    return fmt::format("{:.1f} us", value * 1e6);
  }
  if (figure == "dram_bytes_per_second") {
    return fmt::format("{:.0f} GB/s", value * 1e-9);
  }
  if (figure == "dram_bytes") {
    return fmt::format("{:.1f} MB", value * 1e-6);
  }
  const bool count = figure == "ctas_per_sm" || figure == "registers" || figure == "shared_bytes";
  return count ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}%", 100 * value);
}

std::string required_text(const Gate& gate) {
  return fmt::format("{} {}", gate.at_least ? "at least" : "at most",
                     in_words(gate.figure, gate.limit));
}

/// Adds the gates derived from the roofline, for a problem that fills the GPU.
void add_roofline(std::vector<Gate>& gates, const ProfileGate& demand, const Work& work,
                  const Ceilings& ceilings, const gpu::DeviceInfo& device) {
  const Roofline line = roofline(demand, work, ceilings, device);
  const double seconds = line.seconds();
  gates.push_back(
      {"seconds", false, seconds / demand.reach,
       fmt::format("{:.0f}% of the roofline: products {:.1f} us, exponentials {:.1f} us, "
                   "operands {:.1f} us, combined {:.1f} us",
                   100 * demand.reach, line.matrix * 1e6, line.special * 1e6, line.memory * 1e6,
                   seconds * 1e6)});
  if (line.memory > line.matrix + line.special) {
    // The data written last remains in the L2 cache.
    const double kept = std::min(0.5, static_cast<double>(device.l2_bytes) / work.bytes);
    gates.push_back(
        {"dram_bytes_per_second", true,
         demand.reach * (1 - kept) * ceilings.copy_bytes_per_second * line.memory / seconds,
         fmt::format("bound by device memory: {:.0f}% of the operands' traffic at the copy "
                     "rate of {:.0f} GB/s, minus {:.0f}% that stay in the L2 cache",
                     100 * demand.reach, ceilings.copy_bytes_per_second * 1e-9, 100 * kept)});
  } else if (demand.min_matrix == 0) {
    const double per_clock = matrix_rate(device.arch()) * (work.one_byte ? 2 : 1);
    const double peak =
        std::max(per_clock * device.sm_count * max_clock(device), peak_rate(work, ceilings));
    gates.push_back({"matrix_units", true, demand.reach * work.flops / peak / seconds,
                     fmt::format("bound by the SMs: {:.0f}% of the cycles that the products take "
                                 "at the highest clock, {:.1f} of {:.1f} us",
                                 100 * demand.reach, work.flops / peak * 1e6, seconds * 1e6)});
  }
  constexpr double kMoreBytes = 1.15;  // tolerance for partial tiles and sectors
  const double bytes = demand.reads * work.bytes;
  if (bytes > 4.0 * static_cast<double>(device.l2_bytes)) {
    gates.push_back({"dram_bytes", false, kMoreBytes * bytes,
                     demand.reads == 1
                         ? "each operand is read or written once"
                         : fmt::format("the operands are read {:.0f} times", demand.reads)});
  }
}

/// Adds limits for warp stalls. No kernel's design requires stalls on full queues or fences.
void add_stalls(std::vector<Gate>& gates, const ProfileGate& demand) {
  constexpr double kQueue = 0.10;
  constexpr double kFence = 0.05;
  const auto add = [&](const char* figure, double limit, const char* model) {
    gates.push_back({figure, false, limit, model});
  };
  add("stall_membar", kFence, "at most one fence per tile, never one per row");
  add("stall_lg_throttle", kQueue, "global memory is accessed with 16 bytes per lane, or by TMA");
  add("stall_mio_throttle", kQueue, "shared memory is accessed with 16 bytes per lane");
  add("stall_drain", kQueue, "stores write whole sectors and finish long before the end");
  add("stall_barrier", demand.max_barrier,
      demand.max_barrier > kQueue
          ? "warpgroups alternate, so that each waits for the other half of the time"
          : "warps should rarely wait for each other");
}

}  // namespace

std::string GateResult::words() const {
  return fmt::format("{} {}, {} required", gate.figure, in_words(gate.figure, reading),
                     required_text(gate));
}

bool GateReport::passed() const {
  return std::ranges::all_of(results, &GateResult::passed);
}

Work needed_work(const Workload& workload) {
  return {.what = workload.describe(),
          .flops = workload.flops(),
          .bytes = static_cast<double>(workload.bytes()),
          .one_byte = size_of(workload.operand_type()) == 1};
}

double Roofline::seconds() const {
  return std::hypot(matrix + special, memory);
}

Roofline roofline(const ProfileGate& demand, const Work& work, const Ceilings& ceilings,
                  const gpu::DeviceInfo& device) {
  constexpr double kShown = 0.5;  // share of the exponentials that does not overlap with products
  const double matrix = peak_rate(work, ceilings);
  if (matrix == 0 || ceilings.copy_bytes_per_second == 0) {
    fail("{} has no gates without the GPU's ceilings, which could not be measured", work.what);
  }
  return {.matrix = work.flops / (matrix * demand.matrix_rate),
          .special = kShown * demand.exponentials /
                     (gpu::arch_up_to(device.arch(), gpu::kArchs).exponentials * device.sm_count *
                      max_clock(device)),
          .memory = demand.reads * work.bytes / ceilings.copy_bytes_per_second};
}

std::vector<Gate> derive_gates(const ProfileGate& demand, const Work& work,
                               const Ceilings& ceilings, const gpu::DeviceInfo& device,
                               int threads) {
  std::vector<Gate> gates;
  if (demand.reach > 0) {
    add_roofline(gates, demand, work, ceilings, device);
  }
  if (demand.min_matrix > 0) {
    gates.push_back({"matrix_units", true, demand.min_matrix, demand.reason});
  }
  if (demand.min_fma > 0) {
    gates.push_back({"fma", true, demand.min_fma, demand.reason});
  }
  gates.push_back({"layout_conflict_share", false, demand.max_conflicts,
                   demand.max_conflicts > 0.05 ? demand.reason
                                               : "shared memory is swizzled or padded: no two "
                                                 "addresses of an access share a bank"});
  if (demand.min_occupancy > 0) {
    gates.push_back({"occupancy_reached", true, demand.min_occupancy,
                     demand.min_occupancy < 0.7
                         ? "three of the producer's four warps exit at once; all other warps stay"
                         : "all CTAs that fit into the SMs are resident until the end"});
  }
  const int ctas = demand.ctas_per_sm;
  const auto all = static_cast<double>(device.shared_bytes_per_block) + kSystemShared;
  const double registers = gpu::arch_up_to(device.arch(), gpu::kArchs).registers;
  gates.push_back({"ctas_per_sm", true, double(ctas), demand.ctas_reason});
  gates.push_back({"registers", false,
                   std::min(255.0, std::floor(registers / (ctas * threads) / 8) * 8),
                   fmt::format("{} CTAs of {} threads share an SM's 65,536", ctas, threads)});
  gates.push_back({"shared_bytes", false, std::floor(all / ctas - kSystemShared),
                   fmt::format("{} CTAs share an SM's {:.0f} KiB", ctas, all / 1024)});
  add_stalls(gates, demand);
  return gates;
}

Profile merge_launches(std::span<const Profile> launches) {
  Profile whole = *std::ranges::max_element(
      launches, {}, [](const Profile& profile) { return profile["seconds"]; });
  const auto sum = [&](std::string_view figure) {
    double all = 0;
    for (const Profile& launch : launches) {
      all += launch[figure];
    }
    return all;
  };
  const double seconds = sum("seconds");
  const auto mean = [&](std::string_view figure) {
    double all = 0;
    for (const Profile& launch : launches) {
      all += launch[figure] * launch["seconds"];
    }
    return seconds > 0 ? all / seconds : 0.0;
  };
  for (const FigureInfo& info : figures()) {
    if (info.share) {
      whole.figures[std::string(info.name)] = mean(info.name);
    }
  }
  for (const Profile& launch : launches) {
    for (const auto& [name, value] : launch.figures) {
      if (name.starts_with("stall_")) {
        whole.figures[name] = mean(name);
      }
    }
  }
  whole.figures["seconds"] = seconds;
  whole.figures["dram_bytes"] = sum("dram_read_bytes") + sum("dram_write_bytes");
  whole.figures["dram_bytes_per_second"] = seconds > 0 ? whole["dram_bytes"] / seconds : 0.0;
  whole.figures["occupancy_reached"] =
      whole["occupancy_limit"] > 0 ? whole["occupancy"] / whole["occupancy_limit"] : 0.0;
  return whole;
}

GateReport judge_gates(const Card& card, const ProfileGate& demand, std::span<const Gate> gates,
                       const Profile& profile) {
  GateReport report{.card = card.name,
                    .case_name = demand.case_name,
                    .level = demand.level,
                    .kernel = profile.kernel,
                    .seconds = profile["seconds"],
                    .results = {}};
  for (const Gate& gate : gates) {
    const double reading = profile[gate.figure];
    report.results.push_back(
        {gate, reading, gate.at_least ? reading >= gate.limit : reading <= gate.limit});
  }
  return report;
}

std::string to_text(const GateReport& report) {
  std::string text =
      fmt::format("{}{}{}, {}: {} in {:.1f} us\n", report.card, report.level.empty() ? "" : " ",
                  report.level, report.case_name, report.kernel, report.seconds * 1e6);
  for (const GateResult& result : report.results) {
    text += fmt::format("  {} {:<22} {:>11}  {:<21}  {}\n", result.passed ? "pass" : "MISS",
                        result.gate.figure, in_words(result.gate.figure, result.reading),
                        required_text(result.gate), result.gate.model);
  }
  return text;
}

std::optional<std::size_t> next_to_measure(std::span<const std::string_view> kernels,
                                           std::span<const GateReport> reports) {
  if (reports.empty() || reports.back().passed() ||
      reports.back().seconds > reports.front().seconds || reports.size() > kernels.size()) {
    return std::nullopt;
  }
  const auto match = std::ranges::find_if(kernels, [&](std::string_view kernel) {
    return std::ranges::find(reports, kernel, &GateReport::kernel) == reports.end();
  });
  return match == kernels.end() ? std::nullopt
                                : std::optional(static_cast<std::size_t>(match - kernels.begin()));
}

std::vector<ProfileGate> levels_without_gates(const Card& card, const ProfileGate& missed) {
  std::vector<ProfileGate> others;
  for (const std::string& level : card.levels | std::views::reverse) {
    const bool has_gates = std::ranges::any_of(card.gates, [&](const ProfileGate& gate) {
      return gate.level == level && gate.case_name == missed.case_name;
    });
    if (!has_gates) {
      others.push_back({.level = level, .case_name = missed.case_name, .reach = 0});
    }
  }
  return others;
}

std::string to_json(const gpu::DeviceInfo& device, const Ceilings& ceilings,
                    std::span<const GateReport> reports) {
  Json levels = Json::array();
  for (const GateReport& report : reports) {
    Json gates = Json::array();
    for (const GateResult& result : report.results) {
      gates.push_back({{"figure", result.gate.figure},
                       {"sense", result.gate.at_least ? "at_least" : "at_most"},
                       {"limit", result.gate.limit},
                       {"model", result.gate.model},
                       {"reading", result.reading},
                       {"passed", result.passed},
                       {"words", result.words()}});
    }
    levels.push_back({{"card", report.card},
                      {"case", report.case_name},
                      {"level", report.level},
                      {"kernel", report.kernel},
                      {"passed", report.passed()},
                      {"seconds", report.seconds},
                      {"gates", std::move(gates)}});
  }
  return Json{{"kind", "gates"},
              {"version", 1},
              {"machine", Json::parse(machine_json(device))},
              {"ceilings",
               {{"copy_bytes_per_second", ceilings.copy_bytes_per_second},
                {"bf16_flops", ceilings.bf16_flops},
                {"e4m3_flops", ceilings.e4m3_flops}}},
              {"levels", std::move(levels)}}
      .dump(1);
}

}  // namespace fovea::lab
