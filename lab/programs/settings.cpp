// Settings that `fovea emulate -- PROGRAM` passes to the library in the program's process.
#include "lab/programs/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "lab/emulation/emulation.hpp"

namespace emu {

// Found by nlohmann::json, by their names.
static void to_json(nlohmann::json& json, const IgnoredFinding& ignored) {
  json = {{"kind", ignored.kind.has_value() ? static_cast<int>(*ignored.kind) : -1},
          {"line", ignored.line},
          {"source", ignored.source}};
}
static void from_json(const nlohmann::json& json, IgnoredFinding& ignored) {
  const int kind = json.at("kind").get<int>();
  ignored.kind =
      kind < 0 ? std::nullopt : std::optional(static_cast<FindingKind>(std::min(kind, UINT8_MAX)));
  json.at("line").get_to(ignored.line);
  json.at("source").get_to(ignored.source);
}

}  // namespace emu

namespace fovea::programs {
namespace {

// Calls field(name, reference) for each setting, so that reading and writing have the same.
template <typename AnySettings, typename Field>
void for_each_field(AnySettings& settings, const Field& field) {
  field("schedules", settings.schedules);
  field("kernel", settings.kernel);
  field("launches", settings.launches);
  field("arch", settings.arch);
  field("max_memory", settings.max_memory);
  field("threads", settings.threads);
  field("all", settings.all);
  field("gnu", settings.is_gnu);
  field("program", settings.program);
  auto& run = settings.run;
  field("seed", run.seed);
  field("policy", run.policy);
  field("resident_blocks", run.resident_blocks);
  field("check_races", run.check_races);
  field("check_swizzle_starts", run.check_swizzle_starts);
  field("check_last_stores", run.check_last_stores);
  field("check_tensor_fences", run.check_tensor_fences);
  field("check_late_warps", run.check_late_warps);
  field("check_late_commits", run.check_late_commits);
  field("check_stored_values", run.check_stored_values);
  field("check_init_fences", run.check_init_fences);
  field("check_relaxed_ends", run.check_relaxed_ends);
  field("check_zeroed_accumulators", run.check_zeroed_accumulators);
  field("check_tensor_waits", run.check_tensor_waits);
  field("check_same_stores", run.check_same_stores);
  field("max_findings", run.max_findings);
  field("ignored", run.ignored);
  field("max_steps", run.max_steps);
}

// Checks what the types of the fields leave open.
void check_ranges(const Settings& settings) {
  const auto require = [](bool is_right, const char* name) {
    if (!is_right) {
      fail("{}: {} has no such value", kSettingsVariable, name);
    }
  };
  const emu::RunOptions& run = settings.run;
  require(settings.schedules > 0, "schedules");
  require(settings.threads > 0, "threads");
  require(settings.arch == 90 || settings.arch == 100, "arch");
  require(run.policy >= emu::Policy::kFromSeed && run.policy <= emu::Policy::kStarve, "policy");
  require(run.resident_blocks > 0, "resident_blocks");
  require(run.max_findings > 0, "max_findings");
  for (const emu::IgnoredFinding& ignored : run.ignored) {
    require(!ignored.kind.has_value() || *ignored.kind <= emu::FindingKind::kAssertion, "ignored");
  }
}

}  // namespace

bool Settings::searches(std::uint64_t launch, const std::string& kernel_name) const {
  const bool is_chosen =
      launches.empty() ||
      std::ranges::find(launches, static_cast<std::int64_t>(launch)) != launches.end();
  return is_chosen && (kernel.empty() || emulation::is_called(kernel_name, kernel));
}

std::string to_text(const Settings& settings) {
  nlohmann::json json;
  for_each_field(settings, [&](const char* name, const auto& value) { json[name] = value; });
  json["journal"] = settings.journal.native();
  return json.dump();
}

Settings settings_from_environment() {
  Settings settings;
  const char* const text = std::getenv(kSettingsVariable);
  if (text == nullptr) {
    return settings;
  }
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    for_each_field(settings, [&](const char* name, auto& value) { json.at(name).get_to(value); });
    settings.journal = json.at("journal").get<std::string>();
    check_ranges(settings);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: {}", kSettingsVariable, error.what());
  }
  return settings;
}

}  // namespace fovea::programs
