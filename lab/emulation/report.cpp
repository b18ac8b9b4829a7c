// Converts the emulator's findings to JSON, and back.
#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "fovea_emulator/finding.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/emulation/field.hpp"

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

namespace {

constexpr std::uint64_t kMaxLine = std::numeric_limits<int>::max();

// Reads what a finding and the access before it have both.
template <typename Access>
void read_access(const Field& field, Access& access) {
  access.kernel = field.at("kernel").text();
  access.instruction = field.at("instruction").text();
  access.line = static_cast<int>(field.at("line").whole(0, kMaxLine));
  access.source = field.at("source").text();
  std::ranges::transform(field.at("block").wholes(3, 3, 0, kMaxNumber), access.block.begin(),
                         [](std::uint64_t index) { return static_cast<std::uint32_t>(index); });
  const Field warp = field.at("warp");
  access.warp = warp.number() < 0 ? -1 : static_cast<int>(warp.whole(0, kMaxLine));
}

}  // namespace

emu::Finding read_finding(const Field& field) {
  emu::Finding finding;
  const Field kind = field.at("kind");
  if (const auto known = emu::kind_called(kind.text())) {
    finding.kind = *known;
  } else {
    kind.fail("unknown kind");
  }
  read_access(field, finding);
  finding.message = field.at("message").text();
  finding.place = field.at("place").text();
  finding.lanes = static_cast<std::uint32_t>(field.at("lanes").whole(0, kMaxNumber));
  finding.count = field.at("count").whole(0, std::numeric_limits<std::uint64_t>::max());
  if (const auto other = field.find("other")) {
    read_access(*other, finding.other.emplace());
  }
  return finding;
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
