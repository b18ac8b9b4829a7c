// Writes JSON to the standard output or to a file.
#include "cli/json_output.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/options.hpp"
#include "cli/outputs.hpp"
#include "cli/terminal.hpp"
#include "io/atomic_file.hpp"

namespace fovea::cli {
namespace {

constexpr std::array<std::string_view, 6> kStandardOutput = {"-", "true", "1", "on", "yes", "TRUE"};
constexpr std::array<std::string_view, 6> kNoJson = {"", "false", "0", "off", "no", "FALSE"};

bool is_in(std::span<const std::string_view> values, std::string_view value) {
  return std::ranges::find(values, value) != values.end();
}

/// Returns the words of a command without the program's name, joined by dots, such as
/// "kernel.check".
std::string dotted_command_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  const bool is_first = parent == nullptr || parent->get_parent() == nullptr;
  return (is_first ? "" : dotted_command_name(*parent) + ".") + command.get_name();
}

}  // namespace

CLI::Option* JsonOutput::add_to(CLI::App& command) {
  command_ = &command;
  CLI::Option* const option =
      command
          .add_flag("--json", value_,
                    "Print JSON instead of text; with =FILE also print the text, and write the "
                    "JSON to FILE")
          ->type_name("[=FILE]")
          ->group(kReportGroup);
  return declare_output(command, option, OutputKind::kJson);
}

bool JsonOutput::to_stdout() const {
  return is_in(kStandardOutput, value_);
}

std::string JsonOutput::file_from_value(const std::string& value) {
  return is_in(kStandardOutput, value) || is_in(kNoJson, value) ? "" : value;
}

std::string JsonOutput::file() const {
  return file_from_value(value_);
}

nlohmann::ordered_json JsonOutput::envelope(const nlohmann::ordered_json& body,
                                            std::string_view kind) const {
  std::string command_name = dotted_command_name(*command_);
  if (!kind.empty()) {
    command_name.replace(command_name.rfind('.') + 1, std::string::npos, kind);
  }
  nlohmann::ordered_json document{{"kind", std::string(kKindPrefix) + command_name},
                                  {"version", 1}};
  for (const auto& [name, value] : body.items()) {
    if (name != "kind" && name != "version") {
      document[name] = value;
    }
  }
  return document;
}

void JsonOutput::write(const nlohmann::ordered_json& body, std::string_view kind) const {
  if (!is_requested()) {
    return;
  }
  const std::string text = json_text(envelope(body, kind), 2) + '\n';
  if (to_stdout()) {
    std::cout << text << std::flush;
  } else {
    std::cout << std::flush;  // in case the file is also the standard output
    io::write_file_atomically(file(), text);
  }
}

void reject_separate_json_file(const std::vector<std::string>& arguments) {
  if (std::ranges::find(arguments, "--json=") != arguments.end()) {
    throw CLI::ValidationError("--json= needs the name of a file; to print JSON, drop the '='",
                               CLI::ExitCodes::ValidationError);
  }
  for (std::size_t index = 1; index < arguments.size(); ++index) {
    std::error_code error;
    if (arguments[index - 1] == "--json" && arguments[index].ends_with(".json") &&
        !std::filesystem::exists(arguments[index], error)) {
      throw CLI::ValidationError(
          fmt::format("--json takes its file after '=': --json={}", arguments[index]),
          CLI::ExitCodes::ValidationError);
    }
  }
}

nlohmann::ordered_json or_null(bool known, const nlohmann::ordered_json& value) {
  return known ? value : nlohmann::ordered_json();
}

double short_number(float value) {
  const std::string text = fmt::format("{}", value);
  double number = value;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace fovea::cli
