// `fovea manual`: the documents that are made from the definitions of the options.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/describe.hpp"
#include "cli/json_output.hpp"
#include "cli/manual.hpp"
#include "cli/options.hpp"
#include "io/atomic_file.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  io::write_file_atomically(file, text);
}

void write_man_pages(const fs::path& folder, const CommandText& command) {
  std::string name = command.path;
  std::ranges::replace(name, ' ', '-');
  write(folder / (name + ".1"), man_page(command));
  for (const CommandText& below : command.commands) {
    write_man_pages(folder, below);
  }
}

// Writes completions and man pages into the folders below share/ where shells and man look.
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
  names_output(*command,
               without_variable(add_text(*command, "--share", "FOLDER", options->folder,
                                         "Write man pages and completion scripts below this folder "
                                         "instead")),
               OutputKind::kShare);
  options->json.add_to(*command);
  command->callback([options, &app, &run] {
    run = [options, &app] {
      const CommandText program = describe(app);
      if (!options->folder.empty()) {
        write_share(options->folder, program);
      } else if (options->json.leaves_text()) {
        std::cout << markdown(program);
      }
      options->json.write(to_json(program));
      return kDone;
    };
  });
}

}  // namespace fovea::cli
