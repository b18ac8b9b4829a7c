// The commands of `fovea kernel`. Each file cli/kernel/<name>_command.cpp declares the options of
// one and what it runs.
#pragma once

#include <CLI/App.hpp>

#include "cli/commands.hpp"

namespace fovea::cli::kernel {

// Each of these adds its command to `kernel` and sets `run` when that command is chosen.
void add_list(CLI::App& kernel, Run& run);
void add_check(CLI::App& kernel, Run& run);
void add_emulate(CLI::App& kernel, Run& run);
void add_capture(CLI::App& kernel, Run& run);
void add_mutate(CLI::App& kernel, Run& run);
void add_bench(CLI::App& kernel, Run& run);
void add_run(CLI::App& kernel, Run& run);
void add_compare(CLI::App& kernel, Run& run);
void add_profile(CLI::App& kernel, Run& run);
void add_predict(CLI::App& kernel, Run& run);
void add_parameters(CLI::App& kernel, Run& run);
void add_try(CLI::App& kernel, Run& run);
void add_export(CLI::App& kernel, Run& run);
void add_judge(CLI::App& kernel, Run& run);
void add_evolve(CLI::App& kernel, Run& run);
void add_resources(CLI::App& kernel, Run& run);
void add_sass(CLI::App& kernel, Run& run);
void add_sanitize(CLI::App& kernel, Run& run);

}  // namespace fovea::cli::kernel
