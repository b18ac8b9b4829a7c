// The subcommands of `fovea`. Each file cli/<name>_command.cpp declares the options of one
// subcommand and implements it. This header also includes the headers that every such file needs.
#pragma once

#include <functional>

#include <CLI/App.hpp>

#include "cli/describe.hpp"     // IWYU pragma: export
#include "cli/json_output.hpp"  // IWYU pragma: export
#include "cli/options.hpp"      // IWYU pragma: export

namespace fovea::cli {

/// Exit codes of the program; CLI11's own usage errors become kUsage in main(). kInterrupted is
/// 128 + SIGINT, as shells report it.
enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kSomeInputsFailed = 3,
  kNotJudged = 3,  // nothing failed, but a part could not be judged on this machine
  kInterrupted = 130,
};

/// Runs the chosen subcommand and returns the exit code. A fovea::Error thrown from it is printed
/// by main() as "fovea: <message>" and exits with kFailed.
using Run = std::function<int()>;

// Each function adds its subcommand to `app`, and sets `run` when that subcommand is chosen.
void add_embed(CLI::App& app, Run& run);
void add_calibrate(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_check(CLI::App& app, Run& run);
void add_completion(CLI::App& app, Run& run);
void add_emulate(CLI::App& app, Run& run);
void add_heat(CLI::App& app, Run& run);
void add_info(CLI::App& app, Run& run);
void add_init(CLI::App& app, Run& run);
void add_kernel(CLI::App& app, Run& run);
void add_manual(CLI::App& app, Run& run);
void add_merge(CLI::App& app, Run& run);
void add_preprocess(CLI::App& app, Run& run);
void add_pull(CLI::App& app, Run& run);
void add_label(CLI::App& app, Run& run);
void add_search(CLI::App& app, Run& run);
void add_similar(CLI::App& app, Run& run);
void add_tokenize(CLI::App& app, Run& run);
void add_verify(CLI::App& app, Run& run);

}  // namespace fovea::cli
