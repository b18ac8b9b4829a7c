// Runs Nsight Compute on a child process of this program, and interprets its counters.
#include "lab/profile/profile.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ranges>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "gpu/device/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/code/machine_code.hpp"
#include "lab/profile/rules.hpp"
#include "lab/system/compiler.hpp"
#include "lab/system/kernel_sources.hpp"
#include "lab/system/machine.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Assigns source locations to a profile. Compiles the kernel again with line information, which
/// does not change the machine code.
void find_places(Profile& profile, const CaseSpec& spec, int arch) {
  const std::optional<gpu::KernelId> found = gpu::find_kernel(profile.kernel);
  if (!found) {
    profile.no_places = "this program does not contain the kernel's sources";
    return;
  }
  const gpu::KernelId kernel = *found;
  try {
    const gpu::KernelImage* const image = gpu::find_kernel_image(kernel, arch);
    if (spec.sources.empty() && spec.changes.empty() && image != nullptr) {
      const std::vector<std::byte> cubin = assemble_with_lines(*image).cubin;
      const std::string listing = disassemble(cubin, {"-gi", "-c"}, image->name);
      place(profile, std::string(kernel_listing(listing, image->name)),
            KernelSources::built_in().files());
      return;
    }
    const KernelSources sources =
        spec.sources.empty() ? KernelSources::built_in() : KernelSources::from_folder(spec.sources);
    ParameterValues values = sources.kernel(profile.kernel).values;
    for (auto& [name, value] : values) {
      const auto changed = spec.changes.find(name);
      value = changed == spec.changes.end() ? value : changed->second;
    }
    const CompiledKernel compiled =
        compile(sources, kernel, values, {.target = compile_target(kernel, arch)});
    place(profile, disassemble(compiled.image, {"-gi", "-c"}), sources.files());
  } catch (const Error& error) {
    if (profile.no_places.empty()) {
      profile.no_places = error.what();
    }
  }
}

/// ncu's report file, removed in the destructor unless the user has requested it.
class ReportFile {
 public:
  explicit ReportFile(const std::string& kept)
      : kept_(!kept.empty()), stem_(kept_ ? kept : name_.path()) {}
  ~ReportFile() {
    std::error_code ignored;
    if (!kept_) {
      std::filesystem::remove(path(), ignored);
    }
  }
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;
  [[nodiscard]] const std::string& stem() const { return stem_; }
  [[nodiscard]] std::string path() const { return stem_ + ".ncu-rep"; }

 private:
  TemporaryFile name_{{}};
  bool kept_;
  std::string stem_;
};

/// Options that keep ncu from reading a configuration file in the working directory.
constexpr std::array kNoConfig = {"--config-file", "off"};

std::string page(const std::string& report, const std::vector<std::string>& options,
                 StopFlag stop) {
  std::vector<std::string> command = {find_program("ncu"), "--import", report, "--csv", "--page"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), kNoConfig.begin(), kNoConfig.end());
  const ProcessResult result = run_process(command, {.stop = stop});
  if (result.exit_code != 0) {
    fail("{}", why_ncu_failed(result));
  }
  return result.output;
}

std::string percent(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

std::string_view chief_reason(const Samples& samples) {
  return samples.stalls.empty() ? "nothing" : stall_in_words(samples.stalls.front().first);
}

}  // namespace

std::string why_ncu_failed(const ProcessResult& result) {
  const std::string text = result.output + result.errors;
  if (result.timed_out) {
    return "ncu exceeded its time limit";
  }
  if (text.find("ERR_NVGPUCTRPERM") != std::string::npos) {
    return "ncu may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root, or permit it to "
           "all "
           "users by loading the driver with NVreg_RestrictProfilingToAdminUsers=0";
  }
  if (text.find("LibraryNotLoaded") != std::string::npos) {
    return "ncu cannot access the GPU's counters (LibraryNotLoaded): a container or sandbox has to "
           "give access to them";
  }
  const auto said = std::find_if_not(text.begin(), text.end(),
                                     [](unsigned char c) { return std::isspace(c) != 0; });
  return fmt::format("ncu failed with exit code {}: {}", result.exit_code,
                     std::string(said, text.end()).substr(0, 600));
}

std::vector<Profile> profile(const CaseSpec& spec, int device_index, const std::string& program,
                             const std::string& report, StopFlag stop) {
  constexpr double kMaxSeconds = 300;
  const std::unique_ptr<gpu::Device> device = gpu::open_cuda_device(device_index);
  const Case& card_case = find_case(*spec.card, spec.case_name);
  const Subject subject = {.machine = machine_json(device->info()),
                           .card = spec.card->name,
                           .case_name = card_case.name,
                           .problem = card_case.make(spec.seed)->describe(),
                           .plan = spec.plan,
                           .level = spec.level,
                           .sources = spec.sources,
                           .changes = spec.changes};
  const std::string ncu = find_program("ncu");
  if (ncu.empty()) {
    fail("ncu is neither on the PATH nor in $CUDA_HOME/bin; it comes with CUDA (Nsight Compute)");
  }
  const ReportFile file(report);
  std::vector<std::string> command = {ncu, "--clock-control", "none", "-f", "-o", file.stem()};
  command.insert(command.end(), kNoConfig.begin(), kNoConfig.end());
  for (const char* const section :
       {"SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis",
        "MemoryWorkloadAnalysis_Tables", "WarpStateStats", "SchedulerStats", "Occupancy",
        "LaunchStats", "SourceCounters"}) {
    command.insert(command.end(), {"--section", section});
  }
  // Counters are also requested by name, since the sections do not contain all of them on all GPUs.
  command.insert(command.end(),
                 {"--metrics", fmt::format("{}", fmt::join(counters_to_ask(), ","))});
  command.insert(command.end(),
                 {program, "kernel", "run", spec.card->name, "--gpu", std::to_string(device_index),
                  "--times", "1"});  // explicit, to be independent of the environment
  const std::string changes = spec.changes.empty() ? "" : Json(spec.changes).dump();
  for (const auto& [option, value] :
       {std::pair{"--case", spec.case_name}, std::pair{"--level", spec.level},
        std::pair{"--plan", spec.plan}, std::pair{"--sources", spec.sources},
        std::pair{"--parameters", changes}}) {
    if (!value.empty()) {
      command.insert(command.end(), {option, value});
    }
  }
  const ProcessResult result = run_process(command, {.max_seconds = kMaxSeconds, .stop = stop});
  if (result.exit_code != 0 || !std::filesystem::exists(file.path())) {
    fail("{}", why_ncu_failed(result));
  }
  const std::string raw = page(file.path(), {"raw"}, stop);
  const std::string source = page(file.path(), {"source", "--print-source", "sass"}, stop);
  std::vector<Profile> profiles = read_profile(raw, source);
  if (profiles.empty()) {
    fail("ncu recorded no kernel of {}", spec.card->name);
  }
  for (Profile& profiled : profiles) {
    profiled.subject = subject;
    find_places(profiled, spec, device->info().arch());
  }
  return profiles;
}

std::string verdict(const Profile& profile) {
  constexpr double kFull = 0.8;  // share of its peak from which a unit counts as saturated
  const std::array<std::pair<double, std::string_view>, 5> units = {{
      {profile["matrix_units"], "the matrix units"},
      {profile["issue"], "instruction issue"},
      {profile["dram"], "device memory"},
      {profile["l2"], "the L2 cache"},
      {profile["l1"], "shared memory and L1"},
  }};
  const auto& [share, unit] = *std::ranges::max_element(units);
  std::string text =
      share >= kFull
          ? fmt::format("bound by {}, busy {} of the time", unit, percent(share))
          : fmt::format("bound by latency: no unit is saturated; the busiest is {} with {}", unit,
                        percent(share));
  // "not_selected" is not a wait. If the first reason is "wait", an instruction's fixed latency,
  // the next reason is reported as well, since no unit causes fixed latencies.
  std::string_view before = "; warps mostly wait for";
  for (const auto& [reason, waiting] : profile.stalls) {
    if (reason == "not_selected") {
      continue;
    }
    text += fmt::format("{} {} ({})", before, stall_in_words(reason), percent(waiting));
    before = ", then for";
    if (reason != "wait") {
      break;
    }
  }
  return text;
}

std::string to_text(const Profile& profile) {
  std::string text = fmt::format(
      "{}: {:.4f} ms, {}\n"
      "  matrix units {}, issue {}, device memory {} ({:.0f} GB/s), L2 {} (hits {}), shared memory "
      "and L1 {}\n"
      "  occupancy {} of {} (limited by {}), {:.0f} CTAs per SM, {:.0f} registers, {:.0f} bytes of "
      "shared memory\n"
      "  {} of shared-memory accesses wait for a bank, stores use {:.0f} of a sector's 32 bytes, "
      "{} of thread instructions predicated off\n",
      profile.kernel, profile["seconds"] * 1e3, verdict(profile), percent(profile["matrix_units"]),
      percent(profile["issue"]), percent(profile["dram"]), profile["dram_bytes_per_second"] * 1e-9,
      percent(profile["l2"]), percent(profile["l2_hit"]), percent(profile["l1"]),
      percent(profile["occupancy"]), percent(profile["occupancy_limit"]), profile.occupancy_reason,
      profile["ctas_per_sm"], profile["registers"], profile["shared_bytes"],
      percent(profile["bank_conflict_share"]), profile["bytes_per_store_sector"],
      percent(profile["predicated_off"]));
  constexpr std::size_t kMaxFindings = 3;
  const std::vector<Finding> all_findings = findings(profile);
  if (all_findings.empty()) {
    text += "  no rule applies\n";
  }
  for (const Finding& finding : all_findings | std::views::take(kMaxFindings)) {
    std::string seen;
    for (const auto& [figure, value] : finding.seen) {
      seen += (seen.empty() ? "" : ", ") + figure_in_words(figure, value);
    }
    text += fmt::format("  * {}: {} ({})\n    try {}{}\n", finding.rule->name, finding.rule->means,
                        seen, finding.rule->attempt,
                        finding.rule->parameter.empty()
                            ? ""
                            : fmt::format("; tuning parameters: {}", finding.rule->parameter));
  }
  for (const auto& [reason, share] : profile.stalls) {
    if (share >= 0.005) {
      text += fmt::format("  {:>4} of stalls: {} ({})\n", percent(share), stall_in_words(reason),
                          reason);
    }
  }
  if (!profile.no_places.empty()) {
    text += fmt::format("  no source locations: {}\n", profile.no_places);
  }
  for (const Samples& role : profile.roles) {
    text += fmt::format("  {:>4} of samples in {}, mostly waiting for {}\n", percent(role.share),
                        role.where, chief_reason(role));
  }
  for (const Samples& place : profile.places) {
    text += fmt::format("  {:>4} of samples at {} `{}`, waiting for {}\n", percent(place.share),
                        place.where, place.text, chief_reason(place));
  }
  return text;
}

std::string to_json(const Profile& profile) {
  const auto shares = [](const auto& all) {
    Json json = Json::object();
    for (const auto& [name, share] : all) {
      json[std::string(name)] = share;
    }
    return json;
  };
  Json finding_list = Json::array();
  for (const Finding& finding : findings(profile)) {
    finding_list.push_back({{"rule", finding.rule->name},
                            {"seen", shares(finding.seen)},
                            {"means", finding.rule->means},
                            {"try", finding.rule->attempt},
                            {"parameter", finding.rule->parameter},
                            {"strength", finding.strength}});
  }
  Json roles = Json::array();
  for (const Samples& role : profile.roles) {
    roles.push_back({{"name", role.where}, {"share", role.share}, {"stalls", shares(role.stalls)}});
  }
  Json places = Json::array();
  for (const Samples& place : profile.places) {
    const auto colon = place.where.rfind(':');
    places.push_back({{"file", place.where.substr(0, colon)},
                      {"line", std::atoi(place.where.c_str() + colon + 1)},
                      {"text", place.text},
                      {"role", place.role},
                      {"share", place.share},
                      {"stalls", shares(place.stalls)}});
  }
  const Subject& subject = profile.subject;
  const Json json = {
      {"kind", "profile"},
      {"version", 1},
      {"machine", subject.machine.empty() ? Json(nullptr) : Json::parse(subject.machine)},
      {"card", subject.card},
      {"case", subject.case_name},
      {"problem", subject.problem},
      {"kernel", profile.kernel},
      {"plan", subject.plan},
      {"level", subject.level},
      {"sources", subject.sources},
      {"parameters", shares(subject.changes)},
      {"seconds", profile["seconds"]},
      {"verdict", verdict(profile)},
      {"occupancy_reason", profile.occupancy_reason},
      {"figures", shares(profile.figures)},
      {"counters", shares(profile.counters)},
      {"stalls", shares(profile.stalls)},
      {"no_places", profile.no_places},
      {"roles", std::move(roles)},
      {"findings", std::move(finding_list)},
      {"places", std::move(places)}};
  return json.dump(1);
}

}  // namespace fovea::lab
