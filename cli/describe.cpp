// Turns the CLI11 declarations of commands and options into CommandText and OptionText.
#include "cli/describe.hpp"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/options.hpp"
#include "cli/outputs.hpp"

namespace fovea::cli {
namespace {

constexpr std::size_t kMaxShownValue = 40;
/// A model is required unless FOVEA_MODEL is set.
constexpr const char* kModelUsage = " {MODEL|-m MODEL}";
constexpr std::string_view kExamples = "\nExamples:\n";

OptionText describe_option(const CLI::Option& option) {
  OptionText text;
  text.is_position = option.get_positional();
  if (text.is_position) {
    text.names = {option.get_name(true)};
  }
  for (const std::string& name : option.get_snames()) {
    text.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    text.names.push_back("--" + name);
  }
  const bool is_switch = option.get_items_expected_max() == 0;
  std::tie(text.value, text.range) = value_and_range(option);
  text.help = option.get_description();
  text.initial = is_switch ? "" : option.get_default_str();
  text.variable = variable_name(option);
  text.group = text.is_position                ? "Arguments"
               : option.get_name() == "--help" ? kReportGroup
                                               : option.get_group();
  text.output = output_kind_name(option);
  text.required = option.get_required();
  text.repeats = text.is_position && option.get_items_expected_max() > 1;
  text.is_list = option.get_delimiter() != '\0';
  return text;
}

std::string usage_line(const CommandText& command) {
  std::string usage = command.path;
  if (!command.commands.empty()) {
    return usage + " COMMAND [arguments]";
  }
  const auto is_model = [](const OptionText& option) {
    return !option.is_position && option.names.back() == "--model";
  };
  const bool has_inputs = std::ranges::any_of(command.options, [](const OptionText& option) {
    return option.is_position && option.names.front() == "INPUT";
  });
  if (has_inputs && std::ranges::any_of(command.options, is_model)) {
    usage += kModelUsage;
  }
  for (const OptionText& option : command.options) {
    if (option.is_position && option.names.front() == "MODEL") {
      usage += kModelUsage;
    } else if (option.is_position) {
      const bool is_optional = !option.required && option.names.front() != "INPUT";
      usage += is_optional ? fmt::format(" [{}]", option.head()) : " " + option.head();
    }
  }
  for (const OptionText& option : command.options) {
    if (!option.is_position && option.required) {
      usage += fmt::format(" {} {}", option.names.front(), option.shown_value());
    }
  }
  return usage + " [options]";
}

/// Splits "auto|cpu|cuda:N".
std::vector<std::string> parts(const std::string& value) {
  std::vector<std::string> names;
  std::istringstream stream(value);
  for (std::string name; std::getline(stream, name, '|');) {
    names.push_back(name);
  }
  return names;
}

void split_footer(const std::string& footer, CommandText& command) {
  const std::size_t examples = footer.find(kExamples);
  std::istringstream notes(footer.substr(0, examples));
  for (std::string line; std::getline(notes, line);) {
    command.notes.push_back(line);
  }
  if (examples != std::string::npos) {
    std::istringstream lines(footer.substr(examples + kExamples.size()));
    for (std::string line; std::getline(lines, line);) {
      command.examples.push_back(line);
    }
  }
}

}  // namespace

std::vector<std::string> OptionText::choices() const {
  std::vector<std::string> names = parts(value);
  if (names.size() < 2) {
    return {};
  }
  // cuda:N is a pattern, not a choice.
  std::erase_if(names, [](const std::string& name) { return name.find(':') != std::string::npos; });
  return names;
}

std::string OptionText::shown_value() const {
  return value.size() > kMaxShownValue ? "NAME" : value;
}

std::string OptionText::full_help() const {
  return shown_value() == value ? help : fmt::format("{}: {}", help, fmt::join(parts(value), ", "));
}

std::string OptionText::head() const {
  if (is_position) {
    return names.front() + (repeats ? "..." : "");
  }
  const bool is_short = names.front().size() == 2;
  const std::string joined_names =
      fmt::format("{}{}", is_short ? "" : "    ", fmt::join(names, ", "));
  return joined_names + (value.empty() || value.starts_with('[') ? "" : " ") + shown_value();
}

std::string OptionText::facts() const {
  std::vector<std::string> parts;
  if (!range.empty() && range != "at least 0") {
    parts.push_back(range);
  }
  if (!initial.empty()) {
    parts.push_back("default: " + initial);
  }
  if (!variable.empty()) {
    parts.push_back(variable);
  }
  return parts.empty() ? "" : fmt::format("[{}]", fmt::join(parts, "; "));
}

std::vector<std::string> CommandText::groups() const {
  std::vector<std::string> used_groups;
  for (const char* const group :
       {"Arguments", kInputGroup, kOutputGroup, kComputeGroup, kOptionsGroup, kReportGroup}) {
    if (std::ranges::find(options, group, &OptionText::group) != options.end()) {
      used_groups.emplace_back(group);
    }
  }
  return used_groups;
}

std::string CommandText::name() const {
  return path.substr(path.rfind(' ') + 1);
}

CommandText describe(const CLI::App& command) {
  CommandText text;
  text.path = command.get_name();
  for (const CLI::App* parent = command.get_parent(); parent != nullptr;
       parent = parent->get_parent()) {
    text.path = parent->get_name() + " " + text.path;
  }
  text.about = command.get_description();
  // Positionals are first, --help is last.
  const auto option_rank = [](const CLI::Option& option) {
    return option.get_positional() ? 0 : option.get_name() == "--help" ? 2 : 1;
  };
  for (const int rank : {0, 1, 2}) {
    for (const CLI::Option* option : command.get_options()) {
      if (option_rank(*option) == rank) {
        text.options.push_back(describe_option(*option));
      }
    }
  }
  for (const CLI::App* below : command.get_subcommands([](const CLI::App* subcommand) {
         return !subcommand->get_name().empty() && !subcommand->get_group().empty();
       })) {
    text.commands.push_back(describe(*below));
  }
  split_footer(command.get_footer(), text);
  text.usage = usage_line(text);
  return text;
}

nlohmann::ordered_json to_json(const CommandText& command) {
  nlohmann::ordered_json json = {{"path", command.path},
                                 {"about", command.about},
                                 {"usage", command.usage},
                                 {"notes", command.notes},
                                 {"examples", command.examples},
                                 {"options", nlohmann::ordered_json::array()},
                                 {"commands", nlohmann::ordered_json::array()}};
  for (const OptionText& option : command.options) {
    json["options"].push_back({{"names", option.names},
                               {"value", option.value},
                               {"range", option.range},
                               {"default", option.initial},
                               {"help", option.help},
                               {"variable", option.variable},
                               {"group", option.group},
                               {"output", option.output},
                               {"is_position", option.is_position},
                               {"required", option.required},
                               {"repeats", option.repeats}});
  }
  for (const CommandText& below : command.commands) {
    json["commands"].push_back(to_json(below));
  }
  return json;
}

void explain(CLI::App& command, const std::vector<std::string>& notes,
             const std::vector<std::string>& examples) {
  std::string footer = fmt::format("{}", fmt::join(notes, "\n"));
  if (!examples.empty()) {
    footer += fmt::format("{}{}", kExamples, fmt::join(examples, "\n"));
  }
  command.footer(footer);
}

}  // namespace fovea::cli
