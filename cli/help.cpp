// Formats help in two columns, and usage errors. Unknown commands and options are reported before
// other errors, which follow from them.
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
std::string wrapped(std::string_view text, std::size_t indent = 0) {
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

// Formats an option: "  -m, --model MODEL   Model: a folder ...".
std::string two_columns(const std::string& left, std::string_view right) {
  std::string text = fmt::format("{:{}}{}", "", kIndent, left);
  std::string rest = wrapped(right, kSecondColumn);
  if (text.size() + 2 <= kSecondColumn) {
    rest.replace(0, text.size(), text);
    return rest;
  }
  return text + "\n" + rest;
}

std::string option_text(const OptionText& option) {
  const std::string facts = option.facts();
  return two_columns(option.head(), option.full_help() + (facts.empty() ? "" : " " + facts));
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

std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : path_of(*app.get_parent()) + " " + app.get_name();
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = command_names(app);
  std::string text = fmt::format("'{}' is not a command", word);
  const std::string hint = io::did_you_mean(word, names);
  std::error_code ignored;
  if (hint.empty() && app.get_parent() == nullptr && std::filesystem::exists(word, ignored)) {
    const bool is_folder = std::filesystem::is_directory(word, ignored);
    return fmt::format("{} but a {}; to embed it, run `fovea embed MODEL {} -o OUT`", text,
                       is_folder ? "folder" : "file", word);
  }
  if (hint.empty() && names.size() <= kMaxListedCommands) {
    return fmt::format("{}; there are {}", text, fmt::join(names, ", "));
  }
  return text + hint;
}

std::string unknown_option(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
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
  if (name.size() == 2) {  // the only suggestion for "-v" is -V
    const auto same = [&](const std::string& candidate) {
      return candidate.size() == 2 && std::tolower(candidate[1]) == std::tolower(name[1]);
    };
    const auto found = std::ranges::find_if(names, same);
    hint = found == names.end() ? "" : fmt::format("; did you mean {}?", *found);
  }
  return fmt::format("'{}' is not an option of `{}`{}", name, path_of(command), hint);
}

// Returns the first argument that `command` does not know, or "".
std::string unknown_word(const CLI::App& command) {
  std::vector<std::string> extras = command.remaining();
  std::ranges::transform(extras, extras.begin(), without_mark);
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  if (const auto option = std::ranges::find_if(extras, is_option); option != extras.end()) {
    return unknown_option(command, *option);
  }
  if (extras.empty()) {
    return "";
  }
  return command_names(command).empty()
             ? fmt::format("`{}` takes fewer arguments; {} cannot be one", path_of(command),
                           fmt::join(extras, ", "))
             : unknown_command(command, extras.front());
}

// Rewords CLI11's message.
std::string reworded(const CLI::ParseError& error) {
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
  if (const std::size_t must = message.find(": must "); must != std::string::npos) {
    return message.substr(0, must) + message.substr(must + 1);
  }
  return message;
}

}  // namespace

std::string help_text(const CommandText& command) {
  std::string text = wrapped(command.about + ".") + "\nUsage: " + command.usage + '\n';
  if (!command.commands.empty()) {
    text += "\nCommands:\n";
    for (const CommandText& below : command.commands) {
      text += two_columns(below.name(), below.about);
    }
  }
  for (const std::string& group : command.groups()) {
    text += fmt::format("\n{}:\n", group);
    for (const OptionText& option : command.options) {
      text += option.group == group ? option_text(option) : "";
    }
  }
  for (const std::string& note : command.notes) {
    text += '\n' + wrapped(note);
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
  const auto named = app->get_subcommands(
      [&](const CLI::App* command) { return command->get_name() == words.front(); });
  if (named.empty()) {
    throw CLI::ValidationError(unknown_command(*app, words.front()),
                               CLI::ExitCodes::ValidationError);
  }
  return find_command(named.front(), words.subspan(1));
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string reason = unknown_word(app);
  for (auto below = app.get_subcommands(); !below.empty(); below = command->get_subcommands()) {
    command = below.front();
    reason = reason.empty() ? unknown_word(*command) : reason;
  }
  if (reason.empty() && error.get_name() == "RequiredError" && !command_names(*command).empty()) {
    reason = fmt::format("a command is missing after `{}`; there are {}", path_of(*command),
                         fmt::join(command_names(*command), ", "));
  }
  const std::string environment = environment_note(app);
  return fmt::format("fovea: {}\nRun `{} --help` for more.\n{}{}",
                     io::printable(reason.empty() ? reworded(error) : reason), path_of(*command),
                     io::printable(environment), environment.empty() ? "" : "\n");
}

}  // namespace fovea::cli
