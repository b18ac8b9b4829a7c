// The subcommands of `fovea`. Each file cli/<name>_command.cpp declares the options of one and
// what it runs.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace fovea::cli {

/// Exit codes of the program; CLI11's own usage errors become kUsage in main(). kInterrupted is
/// 128 + SIGINT, as shells report it.
enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kSomeInputsFailed = 3,
  kInterrupted = 130,
};

/// Upper limit of --threads options: a larger number is a typing error.
inline constexpr int kMostThreads = 1024;

/// Checks --device options: auto, cpu, cuda or cuda:N.
inline CLI::Validator is_device() {
  return {[](std::string& device) -> std::string {
            const bool numbered = device.starts_with("cuda:") && device.size() > 5 &&
                                  device.find_first_not_of("0123456789", 5) == std::string::npos;
            return device == "auto" || device == "cpu" || device == "cuda" || numbered
                       ? ""
                       : "unknown device '" + device + "'; use auto, cpu, cuda or cuda:N";
          },
          "DEVICE", "device"};
}

/// Does what the chosen subcommand is for; its result is the exit code. A fovea::Error thrown from
/// it is printed by main() as "fovea: <message>" and exits with kFailed.
using Run = std::function<int()>;

// Each of these adds its subcommand to `app` and sets `run` when that subcommand is chosen.
void add_embed(CLI::App& app, Run& run);
void add_calibrate(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_check(CLI::App& app, Run& run);
void add_info(CLI::App& app, Run& run);
void add_init(CLI::App& app, Run& run);
void add_kernel(CLI::App& app, Run& run);
void add_preprocess(CLI::App& app, Run& run);
void add_pull(CLI::App& app, Run& run);
void add_similar(CLI::App& app, Run& run);
void add_verify(CLI::App& app, Run& run);

}  // namespace fovea::cli
