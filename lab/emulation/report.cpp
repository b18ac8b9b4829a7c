// Converts the emulator's findings to JSON.

#include <nlohmann/json.hpp>

#include "fovea_emulator/finding.hpp"
#include "lab/emulation/emulation.hpp"

namespace fovea::emulation {

nlohmann::ordered_json to_json(const emu::Finding& finding) {
  nlohmann::ordered_json json = {{"kind", emu::name_of(finding.kind)},
                                 {"message", finding.message},
                                 {"place", finding.place},
                                 {"kernel", finding.kernel},
                                 {"instruction", finding.instruction},
                                 {"line", finding.line},
                                 {"source", finding.source},
                                 {"block", finding.block},
                                 {"warp", finding.warp},
                                 {"lanes", finding.lanes},
                                 {"count", finding.count}};
  if (const auto& other = finding.other) {
    json["other"] = {{"kernel", other->kernel}, {"instruction", other->instruction},
                     {"line", other->line},     {"source", other->source},
                     {"block", other->block},   {"warp", other->warp}};
  }
  return json;
}

nlohmann::ordered_json to_json(const Mismatch& mismatch) {
  return {{"kind", "mismatch"},      {"message", mismatch.text()},   {"buffer", mismatch.buffer},
          {"index", mismatch.index}, {"is", mismatch.actual},        {"wanted", mismatch.expected},
          {"wrong", mismatch.wrong}, {"elements", mismatch.elements}};
}

nlohmann::ordered_json to_json(const Outcome& outcome) {
  auto findings = nlohmann::ordered_json::array();
  for (const emu::Finding& finding : outcome.report.findings) {
    findings.push_back(to_json(finding));
  }
  for (const Mismatch& mismatch : outcome.mismatches) {
    findings.push_back(to_json(mismatch));
  }
  return {{"seed", outcome.seed},
          {"policy", emu::name_of(outcome.report.policy)},
          {"ended", outcome.report.has_ended},
          {"ignored", outcome.report.ignored},
          {"findings", std::move(findings)}};
}

}  // namespace fovea::emulation
