// The completion scripts for bash, zsh and fish, and `fovea completion`, which prints them. Each
// completes commands, options, and the choices of options; other values complete as file names.
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
  for (const CommandText& below : command.commands) {
    for_each_command(below, visit);
  }
}

std::vector<std::string> names_of_commands(const CommandText& command) {
  std::vector<std::string> names;
  names.reserve(command.commands.size());
  for (const CommandText& below : command.commands) {
    names.push_back(below.name());
  }
  return names;
}

std::vector<std::string> names_of_options(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options) {
    if (!option.is_position) {
      names.insert(names.end(), option.names.begin(), option.names.end());
    }
  }
  return names;
}

/// A pattern for a shell's `case` that matches the paths of all subcommands: 'a' | 'b'.
std::string paths(const CommandText& program, std::string_view separator) {
  std::vector<std::string> all;
  for_each_command(program, [&](const CommandText& command) {
    if (command.path != program.path) {
      all.push_back(fmt::format("'{}'", command.path));
    }
  });
  return fmt::format("{}", fmt::join(all, separator));
}

bool takes_value(const OptionText& option) {
  return !option.is_position && !option.value.empty() && option.value.front() != '[';
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t position = text.find(from); position != std::string::npos;
       position = text.find(from, position + to.size())) {
    text.replace(position, from.size(), to);
  }
  return text;
}

/// Escapes text for single quotes in a spec of zsh's _arguments, where brackets and colons are
/// syntax.
std::string zsh_text(const std::string& text) {
  std::string safe = replaced(text, "'", "'\\''");
  safe = replaced(safe, "[", "\\[");
  safe = replaced(safe, "]", "\\]");
  return replaced(safe, ":", "\\:");
}

std::string zsh_function(const CommandText& command) {
  return "_" + replaced(command.path, " ", "_");
}

std::string zsh_arguments(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options) {
    const std::vector<std::string> words = option.choices();
    const std::string choices = zsh_text(fmt::format("{}", fmt::join(words, " ")));
    if (option.is_position) {
      text += words.empty()
                  ? ""
                  : fmt::format(" \\\n    ':{}:({})'", zsh_text(option.names.front()), choices);
      continue;
    }
    const std::string all = fmt::format("{}", fmt::join(option.names, " "));
    const bool has_one_name = option.names.size() == 1;
    text += fmt::format(" \\\n    '({})'{}'[{}]", all,
                        has_one_name ? all : fmt::format("{{{}}}", fmt::join(option.names, ",")),
                        zsh_text(option.help));
    if (takes_value(option)) {
      text += words.empty()    ? fmt::format(":{}:_files", zsh_text(option.value))
              : option.is_list ? fmt::format(":value:_values -s , value {}", choices)
                               : fmt::format(":value:({})", choices);
    }
    text += '\'';
  }
  return text;
}

std::string fish_text(const std::string& text) {
  return replaced(replaced(text, "\\", "\\\\"), "'", "\\'");
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  std::string values;
  std::string options;
  std::string commands;
  for_each_command(program, [&](const CommandText& command) {
    for (const OptionText& option : command.options) {
      const std::vector<std::string> words = option.choices();
      if (option.is_position && !words.empty()) {
        commands += fmt::format("    '{}') words='{}' ;;\n", command.path, fmt::join(words, " "));
      } else if (!words.empty()) {
        for (const std::string& name : option.names) {
          values += fmt::format("    '{} {}') words='{}'{} ;;\n", command.path, name,
                                fmt::join(words, " "), option.is_list ? " list=1" : "");
        }
      } else if (takes_value(option)) {
        for (const std::string& name : option.names) {
          values += fmt::format("    '{} {}') return ;;\n", command.path, name);
        }
      }
    }
    options += fmt::format("    '{}') words='{}' ;;\n", command.path,
                           fmt::join(names_of_options(command), " "));
    if (!command.commands.empty()) {
      commands += fmt::format("    '{}') words='{}' ;;\n", command.path,
                              fmt::join(names_of_commands(command), " "));
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
      paths(program, " | "), values, options, commands);
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
    for (const CommandText& below : command.commands) {
      text += fmt::format("      '{}:{}'\n", below.name(), zsh_text(below.about));
      cases += fmt::format("    {}) {} ;;\n", below.name(), zsh_function(below));
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
      paths(program, " "));
  for_each_command(program, [&](const CommandText& command) {
    const std::string here =
        fmt::format("complete -c fovea -n 'test (__fovea_path) = \"{}\"'", command.path);
    for (const CommandText& below : command.commands) {
      text += fmt::format("{} -f -a {} -d '{}'\n", here, below.name(), fish_text(below.about));
    }
    for (const OptionText& option : command.options) {
      const std::vector<std::string> words = option.choices();
      if (option.is_position) {
        text += words.empty() ? "" : fmt::format("{} -f -a '{}'\n", here, fmt::join(words, " "));
        continue;
      }
      text += here;
      for (const std::string& name : option.names) {
        text += name.size() == 2 ? " -s " + name.substr(1) : " -l " + name.substr(2);
      }
      if (!words.empty()) {
        const std::string choices = fmt::format("{}", fmt::join(words, " "));
        text += option.is_list ? fmt::format(" -x -a '(__fish_append , {})'", choices)
                               : fmt::format(" -x -a '{}'", choices);
      } else if (takes_value(option)) {
        text += " -r";
      }
      text += fmt::format(" -d '{}'\n", fish_text(option.help));
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
