// `fovea kernel profile --gate`: compares the kernels' profiles with the limits of their cards, and
// records the result.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/job_report.hpp"
#include "cli/kernel/profile.hpp"
#include "cli/terminal.hpp"
#include "cli/time_gate.hpp"
#include "core/error.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"
#include "io/atomic_file.hpp"
#include "lab/card_files/card_file.hpp"
#include "lab/cards/card.hpp"
#include "lab/profile/gates.hpp"
#include "lab/profile/profile.hpp"

namespace fovea::cli::kernel {
namespace {

using CardGate = std::pair<const lab::Card*, const lab::ProfileGate*>;

/// Returns the gates of the named cards that match --level and --case.
std::vector<CardGate> requested_gates(const ProfileOptions& options) {
  std::vector<CardGate> gates;
  std::vector<std::string> known_cases;
  for (const lab::Card* const card : lab::named_cards(options.cards)) {
    for (const lab::ProfileGate& gate : card->gates) {
      known_cases.push_back(fmt::format("{} {}{}{}", card->name, gate.case_name,
                                        gate.level.empty() ? "" : " at ", gate.level));
      if ((options.launch.level.empty() || options.launch.level == gate.level) &&
          (options.launch.case_name.empty() || options.launch.case_name == gate.case_name)) {
        gates.emplace_back(card, &gate);
      }
    }
  }
  if (gates.empty()) {
    fail_usage(
        "these cards have no gate{}{}; there are gates for: {}",
        options.launch.level.empty() ? "" : fmt::format(" for level '{}'", options.launch.level),
        options.launch.case_name.empty() ? ""
                                         : fmt::format(" for case '{}'", options.launch.case_name),
        fmt::join(known_cases, ", "));
  }
  return gates;
}

/// Measures cases and collects the results.
class GateRun {
 public:
  GateRun(const ProfileOptions& options, const gpu::DeviceInfo& device)
      : options_(options), device_(device), record_(lab::to_json(device, {}, {})) {}

  void measure(const lab::Card& card, const lab::ProfileGate& gate) {
    const auto workload = lab::find_case(card, gate.case_name).make(options_.launch.seed);
    if (!can_run(card, gate, *workload)) {
      return;
    }
    ++cases_;
    const std::size_t first = reports_.size();
    measure(card, gate, *workload, "");
    if (reports_.back().passed()) {
      return;
    }
    ++missed_;
    if (gate.level.empty()) {
      measure_other_kernels(card, gate, *workload, first);
    } else {
      measure_other_levels(card, gate, *workload, first);
    }
  }

  [[nodiscard]] int cases() const { return cases_; }
  [[nodiscard]] int missed() const { return missed_; }
  [[nodiscard]] const std::string& record() const { return record_; }

 private:
  /// Prints why a case was not measured.
  [[nodiscard]] bool can_run(const lab::Card& card, const lab::ProfileGate& gate,
                             const lab::Workload& workload) const {
    std::string reason = workload.can_run(device_).why;
    if (reason.empty() && !gate.level.empty()) {
      try {
        (void)workload.plan_of_level(device_, gate.level);
      } catch (const Error& error) {
        reason = error.what();
      }
    }
    if (!reason.empty()) {
      say(fmt::format("{} {}{}{}: not measured: {}", card.name, gate.case_name,
                      gate.level.empty() ? "" : " at ", gate.level, reason));
    }
    return reason.empty();
  }

  void measure_other_kernels(const lab::Card& card, const lab::ProfileGate& gate,
                             const lab::Workload& workload, std::size_t first) {
    std::vector<std::string> plans;
    std::vector<std::string_view> kernels;
    for (const lab::Plan& plan : workload.plans(device_) | std::views::drop(1)) {
      plans.push_back(lab::to_string(plan));
      kernels.push_back(gpu::info_of(workload.kernel_of(device_, plan)).name);
    }
    while (const auto next = lab::next_to_measure(kernels, std::span(reports_).subspan(first))) {
      measure(card, gate, workload, plans[*next]);
    }
  }

  /// Measures the levels that have no gate for this case; the others are measured with their gates.
  void measure_other_levels(const lab::Card& card, const lab::ProfileGate& gate,
                            const lab::Workload& workload, std::size_t first) {
    for (const lab::ProfileGate& other : lab::levels_without_gates(card, gate)) {
      if (can_run(card, other, workload)) {
        measure(card, other, workload, "", false);
        if (reports_.back().seconds <= reports_[first].seconds) {
          return;
        }
      }
    }
  }

  void measure(const lab::Card& card, const lab::ProfileGate& gate, const lab::Workload& workload,
               const std::string& plan, bool has_limits = true) {
    const std::string stem = file_stem(card, gate, plan);
    const std::vector<lab::Profile> launches =
        lab::profile({.card = &card,
                      .case_name = gate.case_name,
                      .level = gate.level,
                      .plan = plan,
                      .sources = options_.launch.sources,
                      .changes = plan.empty() ? options_.launch.changes : Parameters(),
                      .seed = options_.launch.seed},
                     options_.gpu, self_, stem, Interruption::flag());
    write_profiles(launches, stem);
    const lab::Profile profile = lab::merge_launches(launches);
    if (gate.reach > 0 && !ceilings_.has_value()) {
      ceilings_ = measure_gpu_ceilings(*open_gpu(options_.gpu));
    }
    const lab::Ceilings ceilings = ceilings_.value_or(lab::Ceilings{});
    std::vector<lab::Gate> limits;
    if (has_limits) {
      limits = lab::derive_gates(gate, lab::needed_work(workload), ceilings, device_,
                                 static_cast<int>(profile["threads"]));
    }
    reports_.push_back(lab::judge_gates(card, gate, limits, profile));
    record_ = lab::to_json(device_, ceilings, reports_);
    if (!options_.record.empty()) {
      io::write_file_atomically(
          options_.record,
          record_ + '\n');  // saved after each case, in case the program is stopped
    }
    if (options_.json.prints_text()) {
      std::cout << (has_limits && plan.empty() ? "" : "instead: ") << lab::to_text(reports_.back())
                << std::flush;
    }
  }

  /// Returns the stem of the file names for --output; empty without --output.
  [[nodiscard]] std::string file_stem(const lab::Card& card, const lab::ProfileGate& gate,
                                      const std::string& plan) const {
    if (options_.output.empty()) {
      return "";
    }
    std::string name = fmt::format("{}-{}", card.name, gate.case_name);
    for (const std::string& part : {gate.level, plan}) {
      name += part.empty() ? "" : "-" + part;
    }
    const auto is_special = [](unsigned char c) { return std::isalnum(c) == 0 && c != '-'; };
    std::ranges::replace_if(name, is_special, '_');
    return (std::filesystem::path(options_.output) / name).string();
  }

  const ProfileOptions& options_;
  const gpu::DeviceInfo& device_;
  const std::string self_ = current_program();
  std::optional<lab::Ceilings> ceilings_;  // set when a gate first needs them
  std::vector<lab::GateReport> reports_;
  std::string record_;
  int cases_ = 0;
  int missed_ = 0;
};

}  // namespace

int profile_gates(const ProfileOptions& options) {
  const std::vector<CardGate> gates = requested_gates(options);
  // A recorded gate must not exclude its kernel from the measurement.
  setenv("FOVEA_GATE_RECORD", "none", 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  const Interruption interruption;
  const gpu::DeviceInfo device = open_gpu(options.gpu)->info();
  say(device.name);
  GateRun run(options, device);
  for (const auto& [card, gate] : gates) {
    run.measure(*card, *gate);
  }
  if (run.cases() == 0) {
    throw Error(fmt::format("none of these cases runs on {}", device.name));
  }
  if (options.json.prints_text()) {
    std::cout << fmt::format("{}/{} cases reach all of their gates\n", run.cases() - run.missed(),
                             run.cases());
  }
  options.json.write(nlohmann::ordered_json::parse(run.record()), "gates");
  return run.missed() == 0 ? kDone : kFailed;
}

}  // namespace fovea::cli::kernel
