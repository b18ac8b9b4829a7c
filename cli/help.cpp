// Help in two columns, and messages about usage errors. Unknown commands and options are reported
// first, because other errors may follow from them.
#include "cli/help.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/environment.hpp"
#include "cli/options.hpp"
#include "io/nearest.hpp"
#include "io/text.hpp"

namespace fovea::cli {
namespace {

constexpr std::size_t kSecondColumn = 28;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kHelpColumns = 80;
constexpr std::size_t kMaxListedCommands = 12;

/// Wraps `text` at spaces into lines of at most kHelpColumns, each indented by `indent` spaces and
/// ended by a newline.
std::string wrap_text(std::string_view text, std::size_t indent = 0) {
  std::string lines;
  std::string line(indent, ' ');
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (line.size() > indent && line.size() + 1 + word.size() > kHelpColumns) {
      lines += line + '\n';
      line.assign(indent, ' ');
    }
    line += (line.size() > indent ? " " : "") + std::string(word);
  }
  return lines + line + '\n';
}

// Formats a description in two columns: "  -m, --model MODEL   Model: a folder ...".
std::string format_columns(const std::string& left, std::string_view right) {
  std::string text = fmt::format("{:{}}{}", "", kIndent, left);
  std::string description = wrap_text(right, kSecondColumn);
  if (text.size() + 2 <= kSecondColumn) {
    description.replace(0, text.size(), text);
    return description;
  }
  return text + "\n" + description;
}

std::string option_text(const OptionText& option) {
  const std::string facts = option.facts();
  return format_columns(option.head(), option.full_help() + (facts.empty() ? "" : " " + facts));
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_name().empty() && !command->get_group().empty()) {
      names.push_back(command->get_name());
    }
  }
  return names;
}

std::string command_path(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : command_path(*app.get_parent()) + " " + app.get_name();
}

std::string unknown_command_message(const CLI::App& app, const std::string& argument) {
  const std::vector<std::string> names = command_names(app);
  std::string text = fmt::format("'{}' is not a command", argument);
  const std::string hint = io::did_you_mean(argument, names);
  std::error_code error;
  if (hint.empty() && app.get_parent() == nullptr && std::filesystem::exists(argument, error)) {
    const bool is_folder = std::filesystem::is_directory(argument, error);
    return fmt::format("{} but a {}; to embed it, run `fovea embed MODEL {} -o OUT`", text,
                       is_folder ? "folder" : "file", argument);
  }
  if (hint.empty() && names.size() <= kMaxListedCommands) {
    return fmt::format("{}; the commands are {}", text, fmt::join(names, ", "));
  }
  return text + hint;
}

std::string unknown_option_message(const CLI::App& command, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& short_name : option->get_snames()) {
      names.push_back("-" + short_name);
    }
    for (const std::string& long_name : option->get_lnames()) {
      names.push_back("--" + long_name);
    }
  }
  std::string hint = io::did_you_mean(name, names);
  if (name.size() == 2) {  // for a short option such as "-v", only suggest -V
    const auto is_same_letter = [&](const std::string& candidate) {
      return candidate.size() == 2 && std::tolower(candidate[1]) == std::tolower(name[1]);
    };
    const auto suggestion = std::ranges::find_if(names, is_same_letter);
    hint = suggestion == names.end() ? "" : fmt::format("; did you mean {}?", *suggestion);
  }
  return fmt::format("'{}' is not an option of `{}`{}", name, command_path(command), hint);
}

// Returns a message about the first argument that `command` does not know, or "".
std::string unknown_argument_message(const CLI::App& command) {
  std::vector<std::string> extra_arguments = command.remaining();
  std::ranges::transform(extra_arguments, extra_arguments.begin(), remove_word_mark);
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  if (const auto option = std::ranges::find_if(extra_arguments, is_option);
      option != extra_arguments.end()) {
    return unknown_option_message(command, *option);
  }
  if (extra_arguments.empty()) {
    return "";
  }
  return command_names(command).empty()
             ? fmt::format("too many arguments for `{}`: {}", command_path(command),
                           fmt::join(extra_arguments, ", "))
             : unknown_command_message(command, extra_arguments.front());
}

// Returns CLI11's message in the words of this program.
std::string reword_message(const CLI::ParseError& error) {
  const std::string message = error.what();
  const std::string name = message.substr(0, message.find_first_of(": "));
  if (error.get_name() == "ArgumentMismatch" && message.ends_with("missing")) {
    return name + " needs a value";
  }
  if (error.get_name() == "ArgumentMismatch" && message.find("At Most 1") != std::string::npos) {
    return name + " may be given only once";
  }
  if (error.get_name() == "ExcludesError") {
    return fmt::format("{} cannot be used with {}", name, message.substr(message.rfind(' ') + 1));
  }
  if (const std::size_t verb_position = message.find(": must ");
      verb_position != std::string::npos) {
    return message.substr(0, verb_position) + message.substr(verb_position + 1);
  }
  return message;
}

}  // namespace

std::string help_text(const CommandText& command) {
  std::string text = wrap_text(command.about + ".") + "\nUsage: " + command.usage + '\n';
  if (!command.commands.empty()) {
    text += "\nCommands:\n";
    for (const CommandText& subcommand : command.commands) {
      text += format_columns(subcommand.name(), subcommand.about);
    }
  }
  for (const std::string& group : command.groups()) {
    text += fmt::format("\n{}:\n", group);
    for (const OptionText& option : command.options) {
      text += option.group == group ? option_text(option) : "";
    }
  }
  for (const std::string& note : command.notes) {
    text += '\n' + wrap_text(note);
  }
  if (!command.examples.empty()) {
    text += "\nExamples:\n";
    for (const std::string& example : command.examples) {
      text += fmt::format("{:{}}{}\n", "", kIndent, example);
    }
  }
  return text;
}

const CLI::App* find_command(const CLI::App* app, std::span<const std::string> words) {
  if (words.empty()) {
    return app;
  }
  const auto matches = app->get_subcommands(
      [&](const CLI::App* command) { return command->get_name() == words.front(); });
  if (matches.empty()) {
    throw CLI::ValidationError(unknown_command_message(*app, words.front()),
                               CLI::ExitCodes::ValidationError);
  }
  return find_command(matches.front(), words.subspan(1));
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string reason = unknown_argument_message(app);
  for (auto subcommands = app.get_subcommands(); !subcommands.empty();
       subcommands = command->get_subcommands()) {
    command = subcommands.front();
    reason = reason.empty() ? unknown_argument_message(*command) : reason;
  }
  if (reason.empty() && error.get_name() == "RequiredError" && !command_names(*command).empty()) {
    reason = fmt::format("a command is missing after `{}`; the commands are {}",
                         command_path(*command), fmt::join(command_names(*command), ", "));
  }
  const std::string environment = environment_note(app);
  return fmt::format("fovea: {}\nRun `{} --help` for more.\n{}{}",
                     io::printable(reason.empty() ? reword_message(error) : reason),
                     command_path(*command), io::printable(environment),
                     environment.empty() ? "" : "\n");
}

}  // namespace fovea::cli
