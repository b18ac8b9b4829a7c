// Completion scripts for bash, zsh and fish, and `fovea completion`, which prints them. The scripts
// complete commands, options, and the choices of options; other values are completed as file names.
#include "cli/completion.hpp"

#include <functional>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"

namespace fovea::cli {
namespace {

using Visit = std::function<void(const CommandText&)>;

void for_each_command(const CommandText& command, const Visit& visit) {
  visit(command);
  for (const CommandText& subcommand : command.commands) {
    for_each_command(subcommand, visit);
  }
}

std::vector<std::string> subcommand_names(const CommandText& command) {
  std::vector<std::string> names;
  names.reserve(command.commands.size());
  for (const CommandText& subcommand : command.commands) {
    names.push_back(subcommand.name());
  }
  return names;
}

std::vector<std::string> option_names(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options) {
    if (!option.is_position) {
      names.insert(names.end(), option.names.begin(), option.names.end());
    }
  }
  return names;
}

/// Returns a pattern for a shell's `case` that matches the paths of all subcommands, such as 'a' |
/// 'b'.
std::string path_pattern(const CommandText& program, std::string_view separator) {
  std::vector<std::string> quoted_paths;
  for_each_command(program, [&](const CommandText& command) {
    if (command.path != program.path) {
      quoted_paths.push_back(fmt::format("'{}'", command.path));
    }
  });
  return fmt::format("{}", fmt::join(quoted_paths, separator));
}

bool takes_value(const OptionText& option) {
  return !option.is_position && !option.value.empty() && option.value.front() != '[';
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t position = text.find(from); position != std::string::npos;
       position = text.find(from, position + to.size())) {
    text.replace(position, from.size(), to);
  }
  return text;
}

/// Escapes text for a single-quoted spec of zsh's _arguments, where brackets and colons are syntax.
std::string escape_for_zsh(const std::string& text) {
  std::string escaped = replace_all(text, "'", "'\\''");
  escaped = replace_all(escaped, "[", "\\[");
  escaped = replace_all(escaped, "]", "\\]");
  return replace_all(escaped, ":", "\\:");
}

std::string zsh_function(const CommandText& command) {
  return "_" + replace_all(command.path, " ", "_");
}

std::string zsh_arguments(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options) {
    const std::vector<std::string> choice_names = option.choices();
    const std::string choices = escape_for_zsh(fmt::format("{}", fmt::join(choice_names, " ")));
    if (option.is_position) {
      text += choice_names.empty() ? ""
                                   : fmt::format(" \\\n    ':{}:({})'",
                                                 escape_for_zsh(option.names.front()), choices);
      continue;
    }
    const std::string names = fmt::format("{}", fmt::join(option.names, " "));
    const bool has_one_name = option.names.size() == 1;
    text += fmt::format(" \\\n    '({})'{}'[{}]", names,
                        has_one_name ? names : fmt::format("{{{}}}", fmt::join(option.names, ",")),
                        escape_for_zsh(option.help));
    if (takes_value(option)) {
      text += choice_names.empty() ? fmt::format(":{}:_files", escape_for_zsh(option.value))
              : option.is_list     ? fmt::format(":value:_values -s , value {}", choices)
                                   : fmt::format(":value:({})", choices);
    }
    text += '\'';
  }
  return text;
}

std::string escape_for_fish(const std::string& text) {
  return replace_all(replace_all(text, "\\", "\\\\"), "'", "\\'");
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  std::string values;
  std::string options;
  std::string commands;
  for_each_command(program, [&](const CommandText& command) {
    for (const OptionText& option : command.options) {
      const std::vector<std::string> choices = option.choices();
      if (option.is_position && !choices.empty()) {
        commands += fmt::format("    '{}') words='{}' ;;\n", command.path, fmt::join(choices, " "));
      } else if (!choices.empty()) {
        for (const std::string& name : option.names) {
          values += fmt::format("    '{} {}') words='{}'{} ;;\n", command.path, name,
                                fmt::join(choices, " "), option.is_list ? " list=1" : "");
        }
      } else if (takes_value(option)) {
        for (const std::string& name : option.names) {
          values += fmt::format("    '{} {}') return ;;\n", command.path, name);
        }
      }
    }
    options += fmt::format("    '{}') words='{}' ;;\n", command.path,
                           fmt::join(option_names(command), " "));
    if (!command.commands.empty()) {
      commands += fmt::format("    '{}') words='{}' ;;\n", command.path,
                              fmt::join(subcommand_names(command), " "));
    }
  });
  return fmt::format(
      R"(# Completion of fovea for bash; `fovea completion bash` prints it.
_fovea() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} path=fovea words= list= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ $i == 1 && ${{COMP_WORDS[i]}} == help ]] && continue
    case "$path ${{COMP_WORDS[i]}}" in
    {}) path+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  # Bash splits "--option=value" into three words.
  [[ $before == '=' ]] && before=${{COMP_WORDS[COMP_CWORD - 2]}}
  [[ $word == '=' ]] && before=${{COMP_WORDS[COMP_CWORD - 1]}} && word=
  case "$path $before" in
{}  esac
  if [[ -z $words && $word == -* ]]; then
    case $path in
{}    esac
  elif [[ -z $words ]]; then
    case $path in
{}    esac
  fi
  # In a list separated by commas, the last item is completed.
  [[ -n $list && $word == *,* ]] && list=${{word%,*}}, || list=
  [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -P "$list" -W "$words" -- "${{word#"$list"}}")
}}
complete -o bashdefault -o default -F _fovea fovea
)",
      path_pattern(program, " | "), values, options, commands);
}

std::string zsh_completion(const CommandText& program) {
  std::string text =
      "#compdef fovea\n# Completion of fovea for zsh; `fovea completion zsh` prints it.\n";
  for_each_command(program, [&](const CommandText& command) {
    text += fmt::format("\n{}() {{\n", zsh_function(command));
    if (command.commands.empty()) {
      text +=
          fmt::format("  _arguments -s{} \\\n    '*:file:_files'\n}}\n", zsh_arguments(command));
      return;
    }
    text += fmt::format(
        "  local context state state_descr line\n  local -a commands\n  typeset -A opt_args\n"
        "  _arguments -C{} \\\n    '1: :->command' \\\n    '*:: :->arguments'\n"
        "  case $state in\n  command)\n    commands=(\n",
        zsh_arguments(command));
    std::string cases;
    for (const CommandText& subcommand : command.commands) {
      text += fmt::format("      '{}:{}'\n", subcommand.name(), escape_for_zsh(subcommand.about));
      cases += fmt::format("    {}) {} ;;\n", subcommand.name(), zsh_function(subcommand));
    }
    text += fmt::format(
        "    )\n    _describe command commands\n    ;;\n  arguments)\n    case $words[1] in\n{}"
        "    esac\n    ;;\n  esac\n}}\n",
        cases);
  });
  return text +
         "\nif [[ $funcstack[1] == _fovea ]]; then\n  _fovea \"$@\"\nelse\n  compdef _fovea "
         "fovea\nfi\n";
}

std::string fish_completion(const CommandText& program) {
  std::string text = fmt::format(
      R"(# Completion of fovea for fish; `fovea completion fish` prints it.
function __fovea_path
    set -l path fovea
    for word in (commandline -opc)[2..]
        switch "$path $word"
            case {}
                set path "$path $word"
        end
    end
    echo $path
end
)",
      path_pattern(program, " "));
  for_each_command(program, [&](const CommandText& command) {
    const std::string completion_prefix =
        fmt::format("complete -c fovea -n 'test (__fovea_path) = \"{}\"'", command.path);
    for (const CommandText& subcommand : command.commands) {
      text += fmt::format("{} -f -a {} -d '{}'\n", completion_prefix, subcommand.name(),
                          escape_for_fish(subcommand.about));
    }
    for (const OptionText& option : command.options) {
      const std::vector<std::string> choice_names = option.choices();
      if (option.is_position) {
        text += choice_names.empty() ? ""
                                     : fmt::format("{} -f -a '{}'\n", completion_prefix,
                                                   fmt::join(choice_names, " "));
        continue;
      }
      text += completion_prefix;
      for (const std::string& name : option.names) {
        text += name.size() == 2 ? " -s " + name.substr(1) : " -l " + name.substr(2);
      }
      if (!choice_names.empty()) {
        const std::string choices = fmt::format("{}", fmt::join(choice_names, " "));
        text += option.is_list ? fmt::format(" -x -a '(__fish_append , {})'", choices)
                               : fmt::format(" -x -a '{}'", choices);
      } else if (takes_value(option)) {
        text += " -r";
      }
      text += fmt::format(" -d '{}'\n", escape_for_fish(option.help));
    }
  });
  return text;
}

void add_completion(CLI::App& app, Run& run) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print the completion script of a shell");
  add_choice(*command, "SHELL", {"bash", "zsh", "fish"}, *shell, "bash, zsh or fish")->required();
  explain(*command, {}, {"source <(fovea completion bash)"});
  command->callback([shell, &app, &run] {
    run = [shell, &app] {
      const CommandText program = describe(app);
      std::cout << (*shell == "bash"  ? bash_completion(program)
                    : *shell == "zsh" ? zsh_completion(program)
                                      : fish_completion(program));
      return kDone;
    };
  });
}

}  // namespace fovea::cli
