// Parses the tables of instruction counts, one per architecture, that are embedded in the program.
#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/predict/instruction_counts.hpp"

namespace fovea::lab {

std::span<const std::string_view> instruction_tables();  // made by cmake/EmbedTexts.cmake

namespace {

CountedCase read_case(const nlohmann::json& json) {
  CountedCase counted{.card = json.at("card"),
                      .case_name = json.at("case"),
                      .kernel = json.at("kernel"),
                      .code = json.at("code")};
  for (const auto& [name, member] : kCountMembers) {
    if (const auto units = json.at("counts").find(name); units != json.at("counts").end()) {
      for (std::size_t unit = 0; unit < units->size(); ++unit) {
        counted.counts.at(unit).*member = units->at(unit);
      }
    }
  }
  return counted;
}

std::map<int, std::vector<CountedCase>> read_tables() {
  std::map<int, std::vector<CountedCase>> tables;
  for (const std::string_view text : instruction_tables()) {
    const auto json = nlohmann::json::parse(text);
    std::vector<CountedCase>& cases = tables[json.at("arch")];
    for (const auto& entry : json.at("cases")) {
      cases.push_back(read_case(entry));
    }
  }
  return tables;
}

}  // namespace

std::span<const CountedCase> counted_cases(int arch) {
  static const std::map<int, std::vector<CountedCase>> tables = read_tables();
  const auto found = tables.find(arch);
  return found == tables.end() ? std::span<const CountedCase>() : found->second;
}

}  // namespace fovea::lab
