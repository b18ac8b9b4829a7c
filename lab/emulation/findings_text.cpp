// Findings for other programs: lines as compilers print them, and SARIF 2.1.0.
#include "lab/emulation/findings_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lab/emulation/findings_order.hpp"

namespace fovea::emulation {
namespace {

using Json = nlohmann::ordered_json;

// A line behind the first of a finding's source: how it begins, and what it is.
struct OtherLine {
  std::string_view prefix{};
  std::string_view note{};
};
constexpr std::array kOtherLines = {
    OtherLine{" (inlined at ", "inlined here"},
    OtherLine{" (inside ", "inside this header of the toolkit"},
};
constexpr std::string_view kMismatch = "mismatch";

SourceLine parse_place(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  SourceLine place;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    place.file = text.substr(0, colon);
    std::from_chars(digits.data(), digits.data() + digits.size(), place.line);
  }
  return place;
}

// Returns the reference of a file, with special characters encoded: files below the current folder
// relative to it, as code hosts want them, and others that are absolute as file://.
std::string uri_of(const std::string& file) {
  std::string name = file;
  if (file.starts_with('/')) {
    std::error_code error;
    const std::filesystem::path below =
        std::filesystem::path(file).lexically_normal().lexically_relative(
            std::filesystem::current_path(error));
    if (!below.empty() && *below.begin() != "..") {
      name = below.native();
    }
  }
  std::string uri = name.starts_with('/') ? "file://" : "";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain =
        std::isalnum(byte) != 0 || std::string_view("/-._~").find(c) != std::string_view::npos;
    uri += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return uri;
}

Json location(const SourceLine& place, const std::string& kernel, const std::string& message) {
  Json json = {{"physicalLocation",
                {{"artifactLocation", {{"uri", uri_of(place.file)}}},
                 {"region", {{"startLine", std::max(place.line, 1)}}}}}};
  if (!kernel.empty()) {
    json["logicalLocations"] = Json::array({{{"name", kernel}, {"kind", "function"}}});
  }
  if (!message.empty()) {
    json["message"] = {{"text", message}};
  }
  return json;
}

std::string rule_id(std::string_view kind) {
  std::string id(kind);
  std::ranges::replace(id, ' ', '-');
  return id;
}

// Returns the instruction, with its line where the place is no line of the PTX, nor of the source.
template <typename Access>
std::string instruction_of(const Access& access, const PtxOrigin& ptx) {
  return access.source.empty() && !ptx.is_kept
             ? fmt::format("{} at line {} of the PTX", access.instruction, access.line)
             : access.instruction;
}

std::string message_of(const emu::Finding& finding, const PtxOrigin& ptx) {
  return fmt::format("{}: {}{}", instruction_of(finding, ptx), finding.message,
                     finding.place.empty() ? "" : fmt::format(" ({})", finding.place));
}

std::string message_of(const emu::EarlierAccess& other, const PtxOrigin& ptx) {
  return fmt::format("earlier access: {} in warp {} of block {},{},{}", instruction_of(other, ptx),
                     other.warp, other.block[0], other.block[1], other.block[2]);
}

Json result_of(const emu::Finding& finding, const PtxOrigin& ptx) {
  const std::vector<SourceLine> places = source_lines(finding.source, ptx, finding.line);
  Json related = Json::array();
  if (finding.other) {
    related.push_back(
        location(source_lines(finding.other->source, ptx, finding.other->line).front(),
                 finding.other->kernel, message_of(*finding.other, ptx)));
  }
  for (const SourceLine& place : std::span(places).subspan(1)) {
    related.push_back(location(place, finding.kernel, std::string(place.note)));
  }
  if (!finding.source.empty() && ptx.is_kept) {
    related.push_back(location({ptx.file, finding.line}, finding.kernel, "the instruction"));
  }
  for (std::size_t i = 0; i < related.size(); ++i) {
    related[i]["id"] = i + 1;
  }
  return {{"ruleId", rule_id(emu::name_of(finding.kind))},
          {"level", "error"},
          {"message", {{"text", message_of(finding, ptx)}}},
          {"locations", Json::array({location(places.front(), finding.kernel, "")})},
          {"relatedLocations", std::move(related)},
          {"properties",
           {{"place", finding.place},
            {"instruction", finding.instruction},
            {"block", finding.block},
            {"warp", finding.warp},
            {"lanes", finding.lanes},
            {"count", finding.count}}}};
}

Json result_of(const Mismatch& mismatch, const PtxOrigin& ptx) {
  return {{"ruleId", kMismatch},
          {"level", "error"},
          {"message", {{"text", mismatch.text()}}},
          {"locations", Json::array({location({ptx.file, 1}, "", "")})},
          {"properties", {{"place", mismatch.buffer + mismatch.index}}}};
}

}  // namespace

std::vector<SourceLine> source_lines(std::string_view source, const PtxOrigin& ptx, int line) {
  if (source.empty()) {
    return {{ptx.file, ptx.is_kept ? line : 1}};
  }
  const std::string_view first = source_line(source);
  std::vector<SourceLine> places = {parse_place(first)};
  source.remove_prefix(first.size());
  while (!source.empty()) {
    const auto* const other = std::ranges::find_if(
        kOtherLines, [&](const OtherLine& known) { return source.starts_with(known.prefix); });
    if (other == kOtherLines.end()) {
      break;
    }
    source.remove_prefix(other->prefix.size());
    const std::string_view text = source_line(source);
    places.push_back(parse_place(text.substr(0, text.rfind(')'))));
    places.back().note = other->note;
    source.remove_prefix(text.size());
  }
  return places;
}

std::vector<std::string> compiler_lines(const emu::Finding& finding, const PtxOrigin& ptx) {
  const std::vector<SourceLine> places = source_lines(finding.source, ptx, finding.line);
  std::vector<std::string> lines = {
      fmt::format("{}:{}: error: {} in {} [{}]", places[0].file, places[0].line,
                  message_of(finding, ptx), finding.kernel, rule_id(emu::name_of(finding.kind)))};
  if (finding.other) {
    const SourceLine other = source_lines(finding.other->source, ptx, finding.other->line).front();
    lines.push_back(
        fmt::format("{}:{}: note: {}", other.file, other.line, message_of(*finding.other, ptx)));
  }
  for (const SourceLine& place : std::span(places).subspan(1)) {
    lines.push_back(fmt::format("{}:{}: note: {}", place.file, place.line, place.note));
  }
  if (!finding.source.empty() && ptx.is_kept) {
    lines.push_back(fmt::format("{}:{}: note: the instruction", ptx.file, finding.line));
  }
  return lines;
}

std::vector<std::string> compiler_lines(const Mismatch& mismatch, const PtxOrigin& ptx) {
  return {fmt::format("{}:1: error: {} [{}]", ptx.file, mismatch.text(), kMismatch)};
}

Json sarif_log(std::span<const Outcome> outcomes, const PtxOrigin& ptx, std::string_view version) {
  Json results = Json::array();
  std::set<std::string> rules;
  std::set<std::string> known_findings;
  std::set<std::string> known_buffers;
  const auto add = [&](Json result, std::uint64_t seed) {
    rules.insert(result["ruleId"].get<std::string>());
    result["properties"]["seed"] = seed;
    results.push_back(std::move(result));
  };
  for (const Outcome& outcome : outcomes) {
    for (const emu::Finding& finding : merged_by_line(outcome.report.findings)) {
      if (known_findings.insert(line_key(finding)).second) {
        add(result_of(finding, ptx), outcome.seed);
      }
    }
    for (const Mismatch& mismatch : outcome.mismatches) {
      if (known_buffers.insert(mismatch.buffer).second) {
        add(result_of(mismatch, ptx), outcome.seed);
      }
    }
  }
  Json rule_list = Json::array();
  for (const std::string& rule : rules) {
    std::string text = rule;
    std::ranges::replace(text, '-', ' ');
    rule_list.push_back({{"id", rule}, {"shortDescription", {{"text", text}}}});
  }
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", Json::array({{{"tool",
                                  {{"driver",
                                    {{"name", "fovea emulate"},
                                     {"version", version},
                                     {"rules", std::move(rule_list)}}}}},
                                 {"results", std::move(results)}}})}};
}

}  // namespace fovea::emulation
