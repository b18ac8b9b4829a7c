// The commands of `fovea kernel`, the options that several of them share, and helpers to declare a
// command. Each file cli/kernel/<name>_command.cpp declares the options of one command and
// implements it; compiled_commands.cpp contains `resources` and `sass`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

#include "cli/commands.hpp"      // IWYU pragma: export
#include "cli/kernel/cards.hpp"  // IWYU pragma: export
#include "lab/check/prepared_case.hpp"

namespace fovea::cli::kernel {

/// Options of every command on cards.
struct CardOptions {
  std::vector<std::string> cards;  // names of cards; empty: all cards
  JsonOutput json;
};
void add_cards(CLI::App& command, CardOptions& options);

/// A command that is being declared, and the options for its action.
template <typename Options>
struct Declared {
  CLI::App& command;
  Options& options;
};

template <typename Options>
Declared<Options> add_command(CLI::App& kernel, Run& run, const char* name, const char* help,
                              int (*action)(const Options&)) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = *kernel.add_subcommand(name, help);
  command.callback(
      [options, action, &run] { run = [options, action] { return action(*options); }; });
  return {command, *options};
}

/// Adds a command on cards, whose options derive from CardOptions.
template <typename Options>
Declared<Options> add_card_command(CLI::App& kernel, Run& run, const char* name, const char* help,
                                   int (*action)(const Options&)) {
  const auto declared = add_command(kernel, run, name, help, action);
  add_cards(declared.command, declared.options);
  return declared;
}

void add_gpu(CLI::App& command, int& index);
/// Adds --device, an emulator to run on instead of a GPU, such as "emu:sm_80".
CLI::Option* add_emulator(CLI::App& command, std::string& emulator);
void add_schedules(CLI::App& command, int& schedules);
/// Adds --case, and --problem for a case that no card lists.
void add_case(CLI::App& command, std::string& name);
void add_level(CLI::App& command, std::string& level);
void add_plan(CLI::App& command, std::string& plan);
void add_sources(CLI::App& command, std::string& folder);
/// Adds --gpu and the options that select a kernel on it: --case, --problem and --level.
void add_level_on_gpu(CLI::App& command, int& gpu, std::string& case_name, std::string& level);
/// Adds --kernel for commands on several kernels.
void add_only_kernel(CLI::App& command, std::string& name);
/// Adds --kernel for commands that change one kernel.
void add_first_kernel(CLI::App& command, std::string& name);

/// Values of tuning parameters by name.
using Parameters = std::map<std::string, int>;
/// Returns the parameters in a JSON object; nullopt unless it is an object of whole numbers.
[[nodiscard]] std::optional<Parameters> parameters_in(const nlohmann::json& json);
void add_parameters_option(CLI::App& command, Parameters& parameters);
/// Adds the options that select a launch: those of add_level_on_gpu(), --plan, --sources and
/// --parameters.
void add_launch(CLI::App& command, int& gpu, lab::CaseSpec& launch);
/// Adds an option that takes tuning parameters as JSON.
void add_json_parameters(CLI::App& command, const char* name, const char* help,
                         const std::function<void(Parameters)>& take);

// Each function adds its command to `kernel`, and sets `run` when that command is chosen.
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
