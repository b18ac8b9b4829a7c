// Environment variables that set options. The command line has precedence over them.
#include "cli/environment.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/options.hpp"
#include "io/nearest.hpp"

namespace fovea::cli {
namespace {

constexpr EngineVariable kEngineVariables[] = {
    {"FOVEA_CPU_ISA",
     "highest instruction set on CPUs: generic, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16 "
     "or amx"},
    {"FOVEA_FORCE_KERNEL", "level of the kernels that operators run on GPUs, such as wgmma or mma"},
    {"FOVEA_FORCE_PTX", "1: compile kernels from PTX, as for GPUs newer than this program"},
    {"FOVEA_GATE_RECORD",
     "gate record that determines the choice of kernels on GPUs (none: no record)"},
    {"FOVEA_EMU_SEED",
     "seed for the order in which the emulator schedules blocks and warps (default: 0)"},
    {"FOVEA_GPU_SLICE", "number of images that GPUs process at once (0: the default)"},
    {"FOVEA_GPU_PROFILE", "1: time each operator on GPUs"},
    {"FOVEA_CUBLASLT", "path of NVIDIA's cuBLASLt library"},
    {"FOVEA_CUDNN", "path of NVIDIA's cuDNN library"},
    {"FOVEA_NVRTC", "path of NVIDIA's NVRTC library, which compiles kernels at run time"},
    {"FOVEA_LIBHEIF", "path of libheif, which reads HEIC and AVIF"},
    {"FOVEA_LIBRARY", "path of libfovea.so, for the Python package"},
    {"FOVEA_BIN", "path of this program, for fovea.emu in the Python package"},
    {"FOVEA_PYTHON", "Python with torch and Fovea's package, for `fovea kernel judge`"},
};

// Prefixes of variables of the project's scripts and tests, which the program ignores.
constexpr std::string_view kIgnoredPrefixes[] = {
    "FOVEA_ATTACK_",     "FOVEA_STATE_",      "FOVEA_TEST_",           "FOVEA_FUZZ_",
    "FOVEA_ENCODE_TOOL", "FOVEA_PIXELS_TOOL", "FOVEA_EMULATED_PROGRAM"};

void name_variables(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (const std::string name = variable_name(*option); !name.empty()) {
      option->envname(name);
    }
  }
}

std::vector<std::string> environment_settings(const CLI::App& app) {
  std::vector<std::string> settings;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_envname();
    const char* const value = name.empty() ? nullptr : std::getenv(name.c_str());
    if (value != nullptr && option->count() > 0 && !is_typed(app, *option)) {
      settings.push_back(fmt::format("{}={}", name, value));
    }
  }
  for (const CLI::App* command : app.get_subcommands()) {
    std::ranges::move(environment_settings(*command), std::back_inserter(settings));
  }
  return settings;
}

/// Returns the names of the FOVEA_* variables of this process, except those for scripts and tests.
std::vector<std::string> program_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::string name(variable.substr(0, variable.find('=')));
    const bool is_ignored = std::ranges::any_of(
        kIgnoredPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (name.starts_with("FOVEA_") && !is_ignored) {
      names.push_back(name);
    }
  }
  return names;
}

void gather_options(const CLI::App& app, std::vector<const CLI::Option*>& options) {
  std::ranges::copy(app.get_options(), std::back_inserter(options));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    gather_options(*command, options);
  }
}

}  // namespace

// The options of a command get their variables only when it is chosen: otherwise CLI11 would apply
// the variables to the options of all commands, and reject a value that another command does not
// accept.
void take_environment_when_chosen(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    command->preparse_callback([command](std::size_t) { name_variables(*command); });
    take_environment_when_chosen(*command);
  }
}

std::string environment_note(const CLI::App& app) {
  const std::vector<std::string> settings = environment_settings(app);
  return settings.empty() ? "" : fmt::format("from the environment: {}", fmt::join(settings, ", "));
}

std::span<const EngineVariable> engine_variables() {
  return kEngineVariables;
}

void forget_option_variables() {
  for (const std::string& name : program_variables()) {
    if (std::ranges::find(kEngineVariables, name, &EngineVariable::name) ==
        std::end(kEngineVariables)) {
      unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): there is one thread
    }
  }
}

std::vector<std::string> unknown_variables(const CLI::App& app) {
  const std::vector<std::string> variables = program_variables();
  if (variables.empty()) {
    return {};
  }
  std::vector<const CLI::Option*> options;
  gather_options(app, options);
  std::vector<std::string> known_names;
  for (const CLI::Option* option : options) {
    const std::string name = variable_name(*option);
    if (!name.empty() && std::ranges::find(known_names, name) == known_names.end()) {
      known_names.push_back(name);
    }
  }
  std::ranges::transform(kEngineVariables, std::back_inserter(known_names),
                         [](const EngineVariable& variable) { return std::string(variable.name); });
  std::vector<std::string> warnings;
  for (const std::string& name : variables) {
    if (std::ranges::find(known_names, name) != known_names.end()) {
      continue;
    }
    if (name == "FOVEA_OVERWRITE" || name == "FOVEA_REPAIR") {
      warnings.push_back(
          fmt::format("{} in the environment is ignored, because it deletes data: give the option "
                      "on the command line",
                      name));
    } else {
      warnings.push_back(fmt::format("{} is not a variable that Fovea knows{}", name,
                                     io::did_you_mean(name, known_names)));
    }
  }
  return warnings;
}

}  // namespace fovea::cli
