// Describes a card as JSON: its workloads, its kernels and their source files.
#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpu/device/kernel_image.hpp"
#include "lab/cards/card.hpp"
#include "lab/cards/workload.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

Json cases_json(const Card& card, bool problems) {
  Json cases = Json::array();
  for (const Case& card_case : card.cases) {
    cases.push_back({{"name", card_case.name},
                     {"check", card_case.check},
                     {"mutants", card_case.mutants},
                     {"bench", card_case.bench},
                     {"small", card_case.small}});
    if (problems) {
      const std::unique_ptr<Workload> workload = card_case.make(1);
      cases.back()["problem"] = workload->describe();
      cases.back()["flops"] = workload->flops();
      cases.back()["bytes"] = workload->bytes();
    }
  }
  return cases;
}

Json limits_json(const Card& card) {
  Json all = Json::array();
  for (const KernelLimits& limits : card.kernels) {
    Json roles = Json::object();
    for (const Role& role : limits.roles) {
      roles[role.name] = role.instruction;
    }
    all.push_back({{"kernels", limits.kernel},
                   {"arch", limits.arch},
                   {"registers", limits.registers},
                   {"shared_bytes", limits.shared_bytes},
                   {"has", limits.sass_has},
                   {"lacks", limits.sass_lacks},
                   {"roles", std::move(roles)}});
  }
  return all;
}

/// Returns the demands on the kernel's regions for its default tuning parameters.
Json demands_json(const Card& card, std::string_view kernel, const ParameterValues& values) {
  Json all = Json::array();
  for (const KernelLimits& limits : card.kernels) {
    for (const RegionLimits& region : limits.regions) {
      for (const InstructionDemand& demand : region.demands) {
        if (limits.covers(kernel)) {
          all.push_back({{"region", region.region},
                         {"instruction", demand.instruction},
                         {demand.exactly ? "exactly" : "at_most", demand.count(values)}});
        }
      }
    }
  }
  return all;
}

void add_kernels(const Card& card, Json& json) {
  const KernelSources& sources = KernelSources::built_in();
  std::vector<std::string> names;
  json["kernels"] = Json::array();
  json["parameters"] = Json::object();
  for (const gpu::KernelInfo& info : gpu::kernels()) {
    if (std::ranges::none_of(card.kernels,
                             [&](const auto& limits) { return limits.covers(info.name); })) {
      continue;
    }
    if (!sources.contains(info.name)) {  // of a card file
      json["kernels"].push_back({{"name", info.name}, {"source", info.source}});
      continue;
    }
    const KernelEntry& entry = sources.kernel(info.name);
    for (const ParameterRange& range : sources.parameters(entry.family)) {
      json["parameters"][entry.family][range.name] = range.values;
    }
    json["kernels"].push_back({{"name", info.name},
                               {"source", "kernels/" + entry.source},
                               {"family", entry.family},
                               {"values", values_json(entry.values)},
                               {"regions", demands_json(card, info.name, entry.values)}});
    names.emplace_back(info.name);
  }
  json["sources"] = Json::array();
  for (const auto& [path, text] : sources.files_of(names)) {
    json["sources"].push_back(path);
  }
}

Json peer_names_json(const Card& card, gpu::Device& device) {
  gpu::KernelCache kernels(device);
  std::vector<std::string> missing;
  Json peers = Json::array();
  for (const Peer& peer : find_case(card, "").make(1)->peers(kernels, missing)) {
    peers.push_back(peer.name);
  }
  return peers;
}

}  // namespace

std::string to_json(const Card& card, gpu::Device* device, bool problems) {
  Json json = {{"name", card.name},
               {"archs", card_archs(card)},
               {"operation", card.operation},
               {"levels", card.levels},
               {"tolerance",
                {{"framework_factor", card.tolerance.framework_factor},
                 {"difference", card.tolerance.difference},
                 {"tile_difference", card.tolerance.tile_difference}}},
               {"cases", cases_json(card, problems)},
               {"limits", limits_json(card)},
               {"gates", Json::array()}};
  for (const ProfileGate& gate : card.gates) {
    json["gates"].push_back({{"level", gate.level},
                             {"case", gate.case_name},
                             {"reason", gate.reason},
                             {"least_roofline", gate.reach},
                             {"least_matrix_units", gate.min_matrix},
                             {"least_fma", gate.min_fma},
                             {"least_occupancy", gate.min_occupancy},
                             {"most_bank_conflicts", gate.max_conflicts},
                             {"most_barrier", gate.max_barrier},
                             {"ctas_per_sm", gate.ctas_per_sm}});
  }
  json["speed_gates"] = Json::array();
  for (const SpeedGate& gate : card.speed_gates) {
    json["speed_gates"].push_back(
        {{"peer", gate.peer}, {"least_ratio", gate.min_ratio}, {"reason", gate.reason}});
  }
  json["peers"] = device == nullptr ? Json() : peer_names_json(card, *device);
  add_kernels(card, json);
  return json.dump();
}

}  // namespace fovea::lab
