// `fovea manual`: generates documents from the definitions of the options: man pages, completion
// scripts, and Markdown for docs/cli.md.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/environment.hpp"
#include "io/atomic_file.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

/// Escapes text for man(7).
std::string roff(std::string_view text) {
  std::string escaped = text.starts_with('.') ? "\\&" : "";
  for (const char letter : text) {
    escaped += letter == '\\'   ? "\\e"
               : letter == '-'  ? "\\-"
               : letter == '\'' ? "\\(aq"  // man would print curved quotes
               : letter == '`'  ? "\\(ga"
                                : std::string(1, letter);
  }
  return escaped;
}

std::string page_name(const CommandText& command) {
  std::string name = command.path;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string upper_case(std::string text) {
  for (char& letter : text) {
    letter = letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  }
  return text;
}

/// Escapes text for Markdown, except `code`.
std::string cell(std::string_view text) {
  std::string escaped;
  bool is_code = false;
  for (const char letter : text) {
    is_code ^= letter == '`';
    const bool is_special = letter == '|' || (!is_code && std::string_view("*<").find(letter) !=
                                                              std::string_view::npos);
    escaped += (is_special ? "\\" : "") + std::string(1, letter);
  }
  return escaped;
}

std::string markdown_of(const CommandText& command) {
  std::string text = fmt::format("\n## {}\n\n{}.\n\n```\n{}\n```\n", command.path,
                                 cell(command.about), command.usage);
  text += "\n| option | what it does | values, default, variable |\n| --- | --- | --- |\n";
  for (const std::string& group : command.groups()) {
    for (const OptionText& option : command.options) {
      if (option.group == group && option.names.back() != "--help") {
        const std::string facts = option.facts();
        const std::string head = option.head();
        text += fmt::format("| `{}` | {} | {} |\n", cell(head.substr(head.find_first_not_of(' '))),
                            cell(option.full_help()),
                            facts.empty() ? "" : cell(facts.substr(1, facts.size() - 2)));
      }
    }
  }
  for (const std::string& note : command.notes) {
    text += fmt::format("\n{}\n", cell(note));
  }
  if (!command.examples.empty()) {
    text += fmt::format("\n```sh\n{}\n```\n", fmt::join(command.examples, "\n"));
  }
  for (const CommandText& below : command.commands) {
    text += markdown_of(below);
  }
  return text;
}

/// Returns the man page of a command, in the markup of man(7).
std::string man_page(const CommandText& command) {
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"Fovea {}\" \"Fovea\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n"
      ".SH DESCRIPTION\n{}.\n",
      upper_case(page_name(command)), FOVEA_VERSION, roff(page_name(command)), roff(command.about),
      roff(command.usage), roff(command.about));
  for (const std::string& note : command.notes) {
    text += ".PP\n" + roff(note) + '\n';
  }
  if (!command.commands.empty()) {
    text += ".SH COMMANDS\n";
    for (const CommandText& below : command.commands) {
      text += fmt::format(".TP\n.BR {} (1)\n{}.\n", roff(page_name(below)), roff(below.about));
    }
  }
  for (const std::string& group : command.groups()) {
    text += fmt::format(".SH {}\n", upper_case(group));
    for (const OptionText& option : command.options) {
      if (option.group == group) {
        const std::string facts = option.facts();
        const std::string head = option.head();
        text += fmt::format(".TP\n.B {}\n{}{}\n", roff(head.substr(head.find_first_not_of(' '))),
                            roff(option.full_help()), facts.empty() ? "" : " " + roff(facts));
      }
    }
  }
  if (!command.examples.empty()) {
    text += ".SH EXAMPLES\n.nf\n";
    for (const std::string& example : command.examples) {
      text += roff(example) + '\n';
    }
    text += ".fi\n";
  }
  return text;
}

/// Returns a Markdown document with all commands and variables.
std::string markdown(const CommandText& program) {
  std::string text =
      "# The commands\n\n"
      "`scripts/cli-docs` makes this page from the program's own definitions. `fovea COMMAND "
      "--help` and the man pages say the same.\n";
  text += markdown_of(program);
  text +=
      "\n## Rules that all commands share\n\n- **Model**: `-m`, else the first argument, else "
      "`FOVEA_MODEL`. It is a folder, or the name of a model that `fovea pull` fetched. Where "
      "arguments are inputs and `FOVEA_MODEL` is set, the first argument is the model only if it "
      "is a model folder, that is, holds a `config.json`. `similar` needs no model for photos in "
      "OUT, so its arguments are always queries.\n- **JSON**: `--json` prints JSON instead of "
      "text; `--json=FILE` prints the text and writes the JSON to FILE, which appears whole or not "
      "at all. The `=` is needed, because what follows `--json` is an argument. `embed` and "
      "`preprocess` write their data to files; `--progress json` prints their events, the last of "
      "which is the report. Every document begins with `kind`, which is `fovea.` and the command's "
      "words (`fovea.search`, `fovea.kernel.check`; where a command has several forms, the form), "
      "and `version`, a whole number. Within a version, fields may be added, but are never renamed "
      "or removed, and never change their meaning.\n- **Outputs**: an output never replaces an "
      "input of the same command. An existing file that Fovea did not write, judging by its "
      "content, is replaced only with `--overwrite`. A name with the ending of another format "
      "(`heat -o x.jpg`) is refused. All of this is checked before anything is computed. Links are "
      "followed, and devices and pipes are written to directly. "
      "[output.md](output.md#what-outputs-replace) has the details.\n- **Lists** (`--precision "
      "fp32,bf16`) are separated by commas. Choices are case-insensitive.\n- **Exit codes**: 0 "
      "done, 1 failed, 2 a wrong command line, 3 done but some inputs failed or could not be "
      "judged here, 130 interrupted.\n- **Completion**: `cmake --install` installs the scripts "
      "where bash, zsh and fish look for them; `fovea completion bash` prints one.\n\n## "
      "Variables\n\nA variable sets the option of the same name in every command that lists it "
      "above; the command line has priority. Switches take `true` or `false`. `--overwrite` and "
      "`--repair` have none, because a variable forgotten in a shell must not delete anything; nor "
      "has `--print0`, whose names may be those of files to delete; nor have options whose meaning "
      "depends on the command: the outputs of `preprocess` and `init`, `--dtype` of `init`, and "
      "the lists `--precision` and `--batch-size` of `bench` and `calibrate`. The program warns "
      "about unknown `FOVEA_` variables. The engine reads these:\n\n| variable | what it does |\n| "
      "--- | --- |\n";
  for (const EngineVariable& variable : engine_variables()) {
    text += fmt::format("| `{}` | {} |\n", variable.name, variable.help);
  }
  return text;
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  io::write_file_atomically(file, text);
}

void write_man_pages(const fs::path& folder, const CommandText& command) {
  write(folder / (page_name(command) + ".1"), man_page(command));
  for (const CommandText& below : command.commands) {
    write_man_pages(folder, below);
  }
}

// Writes completion scripts and man pages to the folders below share/ where shells and man look for
// them.
void write_share(const fs::path& share, const CommandText& program) {
  write(share / "bash-completion/completions/fovea", bash_completion(program));
  write(share / "zsh/site-functions/_fovea", zsh_completion(program));
  write(share / "fish/vendor_completions.d/fovea.fish", fish_completion(program));
  write_man_pages(share / "man/man1", program);
}

}  // namespace

void add_manual(CLI::App& app, Run& run) {
  struct Options {
    std::string folder;
    JsonOutput json;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("manual", "Print all commands as Markdown, for docs/cli.md")->group("");
  without_variable(
      add_output_text(*command, "--share", "FOLDER", options->folder, OutputKind::kShare,
                      "Write man pages and completion scripts below this folder instead"));
  options->json.add_to(*command);
  command->callback([options, &app, &run] {
    run = [options, &app] {
      const CommandText program = describe(app);
      if (!options->folder.empty()) {
        write_share(options->folder, program);
      } else if (options->json.prints_text()) {
        std::cout << markdown(program);
      }
      options->json.write(to_json(program));
      return kDone;
    };
  });
}

}  // namespace fovea::cli
