// JSON to the standard output or to a file.
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
#include "cli/terminal.hpp"
#include "io/atomic_file.hpp"

namespace fovea::cli {
namespace {

constexpr std::array<std::string_view, 6> kStandardOutput = {"-", "true", "1", "on", "yes", "TRUE"};
constexpr std::array<std::string_view, 6> kNowhere = {"", "false", "0", "off", "no", "FALSE"};

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// Told at once, not after the work.
std::string check_folder(const std::string& value) {
  const std::filesystem::path folder = std::filesystem::path(value).parent_path();
  std::error_code ignored;
  return folder.empty() || std::filesystem::is_directory(folder, ignored)
             ? ""
             : fmt::format("there is no folder {}", folder.native());
}

}  // namespace

CLI::Option* JsonOutput::add_to(CLI::App& command) {
  return command
      .add_flag("--json", value_,
                "Print JSON instead of text; with =FILE also print the text, and write the JSON to "
                "FILE")
      ->check(CLI::Validator([](const std::string& value) { return check_folder(value); }, ""))
      ->type_name("[=FILE]")
      ->group(kReportGroup);
}

bool JsonOutput::to_stdout() const {
  return is_one_of(kStandardOutput, value_);
}

std::string JsonOutput::file() const {
  return to_stdout() || is_one_of(kNowhere, value_) ? "" : value_;
}

void JsonOutput::write(const nlohmann::ordered_json& json) const {
  if (!is_wanted()) {
    return;
  }
  const std::string text = json_text(json, 2) + '\n';
  if (to_stdout()) {
    std::cout << text << std::flush;
  } else {
    io::write_file_atomically(file(), text);
  }
}

void refuse_separate_json_file(const std::vector<std::string>& words) {
  if (std::ranges::find(words, "--json=") != words.end()) {
    throw CLI::ValidationError("--json= needs the name of a file, or drop the '='",
                               CLI::ExitCodes::ValidationError);
  }
  for (std::size_t index = 1; index < words.size(); ++index) {
    std::error_code ignored;
    if (words[index - 1] == "--json" && words[index].ends_with(".json") &&
        !std::filesystem::exists(words[index], ignored)) {
      throw CLI::ValidationError(
          fmt::format("--json takes its file after '=': --json={}", words[index]),
          CLI::ExitCodes::ValidationError);
    }
  }
}

double short_number(float value) {
  const std::string text = fmt::format("{}", value);
  double number = value;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace fovea::cli
