// Reads records of profile gates, and chooses kernels by them.
#include "gpu/launch/gate_record.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace fovea::gpu {

/// Returns the contents of the files in kernels/records, which are embedded in the program.
std::span<const std::string_view> built_in_gate_records();

namespace {

using Json = nlohmann::json;

constexpr const char* kVariable = "FOVEA_GATE_RECORD";

std::string missed_gates(const Json& level) {
  if (level.at("passed").get<bool>()) {
    return {};
  }
  std::vector<std::string> missed;
  for (const Json& gate : level.at("gates")) {
    if (!gate.at("passed").get<bool>()) {
      missed.push_back(gate.at("words").get<std::string>());
    }
  }
  return missed.empty() ? "its gates" : fmt::format("{}", fmt::join(missed, "; "));
}

/// Returns the level for attention, or the kernel for other operators.
std::string level_name(const Json& level) {
  const auto kernel = level.at("kernel").get<std::string>();
  const auto name = level.at("level").get<std::string>();
  return name.empty() ? kernel : name;
}

std::vector<GateEntry> read_chosen_record(const DeviceInfo& device) {
  const char* const file = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): only read
  if (file != nullptr && std::string_view(file) == "none") {
    return {};
  }
  if (file != nullptr && *file != '\0') {
    const std::string source = fmt::format("{}={}", kVariable, file);
    std::ifstream stream(file);
    if (!stream) {
      fail("{}: cannot open the file", source);
    }
    const std::string json(std::istreambuf_iterator<char>(stream), {});
    std::vector<GateEntry> entries = read_gate_record(json, device.name, source);
    if (entries.empty()) {
      fail("{}: there is no record of {}", source, device.name);
    }
    return entries;
  }
  for (const std::string_view json : built_in_gate_records()) {
    if (std::vector<GateEntry> found = read_gate_record(json, device.name, "kernels/records");
        !found.empty()) {
      return found;
    }
  }
  return {};
}

}  // namespace

std::string_view GateRecord::missed(std::string_view name) const {
  const auto found = std::ranges::find_if(entries_, [&](const GateEntry& entry) {
    return entry.name == name && !entry.missed.empty();
  });
  return found == entries_.end() ? std::string_view() : found->missed;
}

bool GateRecord::can_replace(std::string_view name, std::string_view missed) const {
  if (!this->missed(name).empty()) {
    return false;
  }
  return std::ranges::all_of(entries_, [&](const GateEntry& other) {
    if (other.name != missed) {
      return true;
    }
    const auto same = std::ranges::find_if(entries_, [&](const GateEntry& entry) {
      return entry.name == name && entry.card == other.card && entry.case_name == other.case_name;
    });
    if (same == entries_.end()) {
      return other.missed.empty();
    }
    return same->seconds > 0 && same->seconds <= other.seconds;
  });
}

std::size_t GateRecord::choose(std::span<const std::string_view> names) const {
  if (names.empty() || missed(names.front()).empty()) {
    return 0;
  }
  const auto found = std::ranges::find_if(
      names, [&](std::string_view name) { return can_replace(name, names.front()); });
  return found == names.end() ? 0 : static_cast<std::size_t>(found - names.begin());
}

std::vector<GateEntry> read_gate_record(std::string_view json, std::string_view gpu_name,
                                        std::string_view source) {
  try {
    const Json record = Json::parse(json);
    // `fovea kernel profile --gate --json` writes kind "fovea.kernel.gates".
    const Json& kind = record.at("kind");
    if ((kind != "gates" && kind != "fovea.kernel.gates") || record.at("version") != 1) {
      fail("{}: unsupported kind or version; expected kind \"gates\" and version 1", source);
    }
    std::vector<GateEntry> entries;
    if (record.at("machine").at("gpu").at("name") != gpu_name) {
      return entries;
    }
    for (const Json& level : record.at("levels")) {
      entries.push_back({.card = level.at("card").get<std::string>(),
                         .case_name = level.at("case").get<std::string>(),
                         .name = level_name(level),
                         .seconds = level.value("seconds", 0.0),
                         .missed = missed_gates(level)});
    }
    return entries;
  } catch (const Json::exception& error) {
    fail("{}: not a record of gates: {}; make one by `fovea kernel profile --gate --record FILE`",
         source, error.what());
  }
}

const GateRecord& gate_record(const DeviceInfo& device) {
  static std::mutex mutex;
  static std::map<std::string, GateRecord> records;  // by the GPU's name
  const std::lock_guard lock(mutex);
  if (const auto found = records.find(device.name); found != records.end()) {
    return found->second;
  }
  return records.try_emplace(device.name, read_chosen_record(device)).first->second;
}

}  // namespace fovea::gpu
