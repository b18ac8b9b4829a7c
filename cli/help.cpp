// Groups of options in two columns.
#include "cli/help.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fovea::cli {
namespace {

constexpr std::size_t kSecondColumn = 28;
constexpr std::size_t kIndent = 2;

// "  -m, --model MODEL   Model: a folder ..."
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

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent) {
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

}  // namespace fovea::cli
