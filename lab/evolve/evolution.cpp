// Computes the identities of candidates, and converts candidates to and from the lines of a ledger.
#include "lab/evolve/evolution.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "lab/system/json_fields.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

Json measured(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

}  // namespace

std::string_view to_string(PopulationKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"best", "insight", "elites"};
  return kNames.at(static_cast<std::size_t>(kind));
}

const TuningSpace& find_space(std::span<const TuningSpace> spaces, std::string_view kernel) {
  const auto match = std::ranges::find(spaces, kernel, &TuningSpace::kernel);
  if (match == spaces.end()) {
    fail("no kernel '{}' can run this case", kernel);
  }
  return *match;
}

std::string variant_key(const Variant& variant, std::span<const TuningSpace> spaces) {
  // Kernels of one family with equal values have the same code, under different names.
  const std::string& family = find_space(spaces, variant.kernel).family;
  std::string identity = family.empty() ? variant.kernel : family;
  for (const auto& [name, value] : variant.values) {
    identity += fmt::format(" {}={}", name, value);
  }
  for (const auto& [path, text] : variant.files) {
    identity += fmt::format(" {}:{:x}", path, std::hash<std::string>()(text));
  }
  return identity;
}

std::string change_between(const Variant& from, const Variant& to) {
  if (from.kernel != to.kernel) {
    return "kernel " + to.kernel;
  }
  const std::string files = to.files == from.files ? "" : "other sources";
  const std::string values = differences(to.values, from.values);
  return values + (values.empty() || files.empty() ? "" : ", ") + files;
}

nlohmann::ordered_json to_json(const Candidate& trial, std::span<const Candidate> trials) {
  const Proposal& proposal = trial.proposal;
  const Variant& variant = proposal.variant;
  Json change = Json::object();
  if (!proposal.parents.empty() && proposal.refused.empty()) {
    const Variant& from =
        trials[static_cast<std::size_t>(proposal.parents.front())].proposal.variant;
    if (from.kernel != variant.kernel) {
      change["kernel"] = variant.kernel;
    } else {
      for (const auto& [name, value] : variant.values) {
        if (value_of(from.values, name) != value) {
          change[name] = value;
        }
      }
    }
  }
  const CandidateOutcome& outcome = trial.outcome;
  Json json = {{"kind", "candidate"},
               {"number", trial.number},
               {"generation", trial.generation},
               {"parents", proposal.parents},
               {"change", std::move(change)},
               {"kernel", variant.kernel},
               {"parameters", values_json(variant.values)},
               {"source_changed", !variant.files.empty()},
               {"reason", proposal.reason},
               {"valid", validity_json(outcome.valid)},
               {"failed_at", outcome.failed() ? Json(outcome.failed_at) : Json(nullptr)},
               {"why", outcome.why},
               {"seconds", measured(outcome.seconds)},
               {"spread", measured(outcome.spread)},
               {"baseline_seconds", measured(outcome.baseline_seconds)},
               {"speed_up", measured(outcome.speed_up)},
               {"kept", trial.kept},
               {"leads", trial.leads},
               {"cost_seconds", trial.cost_seconds}};
  if (!variant.files.empty()) {
    json["files"] = variant.files;
  }
  if (!proposal.refused.empty()) {
    json["refused"] = proposal.refused;
  }
  return json;
}

nlohmann::ordered_json validity_json(std::optional<bool> valid) {
  return valid.has_value() ? Json(*valid) : Json(nullptr);
}

std::optional<bool> validity_from(const nlohmann::ordered_json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<bool>());
}

CandidateOutcome outcome_from(const nlohmann::ordered_json& json) {
  return {.valid = validity_from(json.at("valid")),
          .failed_at = text_in(json, "failed_at"),
          .why = text_in(json, "why"),
          .seconds = number_in(json, "seconds"),
          .spread = number_in(json, "spread"),
          .baseline_seconds = number_in(json, "baseline_seconds"),
          .speed_up = number_in(json, "speed_up")};
}

Candidate trial_from(const nlohmann::ordered_json& json) {
  Candidate trial;
  trial.number = json.at("number").get<int>();
  trial.generation = json.at("generation").get<int>();
  trial.proposal.parents = json.at("parents").get<std::vector<int>>();
  trial.proposal.reason = text_in(json, "reason");
  trial.proposal.refused = text_in(json, "refused");
  Variant& variant = trial.proposal.variant;
  variant.kernel = json.at("kernel").get<std::string>();
  for (const auto& [name, value] : json.at("parameters").items()) {
    variant.values.emplace_back(name, value.get<int>());
  }
  if (const auto files = json.find("files"); files != json.end()) {
    variant.files = files->get<std::map<std::string, std::string>>();
  }
  trial.outcome = outcome_from(json);
  trial.kept = json.at("kept").get<bool>();
  trial.leads = json.value("leads", false);
  trial.cost_seconds = number_in(json, "cost_seconds");
  return trial;
}

nlohmann::ordered_json to_json(const Hint& finding) {
  return {{"rule", finding.rule},
          {"means", finding.means},
          {"try", finding.attempt},
          {"parameter", finding.parameter},
          {"strength", finding.strength}};
}

Hint hint_from(const nlohmann::ordered_json& json) {
  Hint finding;
  if (json.is_object()) {
    finding = {.rule = text_in(json, "rule"),
               .means = text_in(json, "means"),
               .attempt = text_in(json, "try"),
               .parameter = text_in(json, "parameter"),
               .strength = number_in(json, "strength")};
  }
  return finding;
}

}  // namespace fovea::lab
