// `fovea kernel`: the commands of the laboratory, which work on kernel cards.
#include "cli/kernel/options.hpp"

namespace fovea::cli {

void add_kernel(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("kernel", "The laboratory: check and time GPU kernels");
  command->require_subcommand(1);
  for (const auto add :
       {kernel::add_list, kernel::add_check, kernel::add_emulate, kernel::add_capture,
        kernel::add_mutate, kernel::add_bench, kernel::add_run, kernel::add_compare,
        kernel::add_profile, kernel::add_predict, kernel::add_parameters, kernel::add_try,
        kernel::add_export, kernel::add_judge, kernel::add_evolve, kernel::add_resources,
        kernel::add_sass, kernel::add_sanitize}) {
    add(*command, run);
  }
}

}  // namespace fovea::cli
