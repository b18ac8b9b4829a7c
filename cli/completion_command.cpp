// `fovea completion`: the script of a shell, for those who did not install it.
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/describe.hpp"
#include "cli/options.hpp"

namespace fovea::cli {

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
