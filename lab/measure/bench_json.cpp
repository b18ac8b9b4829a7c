// Converts a bench report to JSON: the machine, the ceilings and all figures.
#include <fstream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/output_place.hpp"
#include "lab/measure/bench_cards.hpp"
#include "lab/system/machine.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

Json timing(const Timing& figure) {
  return {{"seconds", figure.seconds},
          {"sustained", figure.sustained},
          {"fastest", figure.fastest},
          {"spread", figure.spread},
          {"samples", figure.samples},
          {"dropped", figure.dropped},
          {"power_capped", figure.power_capped},
          {"sm_mhz", figure.sm_mhz},
          {"watts", figure.watts}};
}

Json to_json(const BenchFigure& figure) {
  Json json = {{"card", figure.card},
               {"case", figure.case_name},
               {"plan", figure.plan},
               {"description", figure.description},
               {"flops", figure.flops},
               {"bytes", figure.bytes},
               {"matrix_ceiling", figure.matrix_ceiling},
               {"max_abs", figure.verdict.worst},
               {"max_rel", figure.verdict.worst_relative},
               {"error", figure.verdict.error},
               {"framework_error", figure.verdict.framework_error},
               {"difference", figure.verdict.difference},
               {"tile_difference", figure.verdict.tile_difference}};
  json.update(timing(figure.timing));
  if (figure.smoke.has_value()) {
    json["checksum"] = {{"sum", figure.smoke->sum},
                        {"expected", figure.smoke->expected},
                        {"outputs", figure.smoke->count},
                        {"first", figure.smoke->first}};
  }
  json["peers"] = Json::array();
  for (const PeerFigure& peer : figure.peers) {
    Json entry = {{"name", peer.timing.name},
                  {"ratio", peer.ratio},
                  {"sustained_ratio", peer.sustained_ratio},
                  {"ambiguous", peer.ambiguous},
                  {"same_result", peer.same_result},
                  {"wrong", peer.wrong}};
    entry.update(timing(peer.timing));
    json["peers"].push_back(std::move(entry));
  }
  json["gates"] = Json::array();
  for (const SpeedResult& gate : figure.gates) {
    json["gates"].push_back({{"peer", gate.gate.peer},
                             {"figure", "ratio"},
                             {"sense", "at_least"},
                             {"limit", gate.gate.min_ratio},
                             {"model", gate.gate.reason},
                             {"reading", gate.ratio},
                             {"passed", gate.passed}});
  }
  return json;
}

Json whole(const BenchReport& report) {
  Json figures = Json::array();
  for (const BenchFigure& figure : report.figures) {
    figures.push_back(to_json(figure));
  }
  return {{"machine", Json::parse(machine_json(report.device, report.driver_version,
                                               report.cublaslt_version))},
          {"kernels",
           {{"copy_bytes_per_second", report.ceilings.copy_bytes_per_second},
            {"bf16_flops", report.ceilings.bf16_flops},
            {"e4m3_flops", report.ceilings.e4m3_flops},
            {"missing", report.missing},
            {"times", Json::parse(to_json(report.times))},
            {"figures", std::move(figures)}}}};
}

/// Returns the JSON in a report's file; an empty object if the file is missing or empty.
Json read_sections(const std::string& path) {
  std::ifstream file;
  if (!io::output_place(path).is_direct) {  // pipes, for example, cannot be read
    file.open(path);
  }
  if (!file.is_open() || file.peek() == std::ifstream::traits_type::eof()) {
    return Json::object();
  }
  Json json = Json::parse(file, nullptr, false);
  if (!json.is_object()) {
    fail("{} is not a report and was not changed; choose another file", path);
  }
  return json;
}

}  // namespace

void check_json_file(const std::string& path) {
  (void)read_sections(path);
}

std::string to_json(const BenchReport& report, const std::string& path) {
  Json json = path.empty() ? Json::object() : read_sections(path);
  json.erase("kernels");
  json.update(whole(report));
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fovea::lab
