// `fovea`: parses the command line, runs one subcommand, and converts errors to exit codes.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ios>
#include <iostream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/environment.hpp"
#include "cli/help.hpp"
#include "cli/outputs.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "fovea/version.hpp"
#include "gpu/device/kernel_image.hpp"
#include "io/file_lock.hpp"

namespace fovea::cli {
namespace {

constexpr int kParsed = -1;

void add_commands(CLI::App& app, Run& run) {
  for (const auto add :
       {add_embed, add_search, add_similar, add_label, add_heat, add_info, add_pull, add_verify,
        add_check, add_merge, add_bench, add_calibrate, add_preprocess, add_tokenize, add_init,
        add_kernel, add_emulate, add_completion, add_manual}) {
    add(app, run);
  }
}

// Prints help for `fovea help COMMAND`, the same as `fovea COMMAND --help`.
int print_help(const CLI::App& app, std::span<const std::string> path) {
  std::cout << help_text(describe(*find_command(&app, path)));
  return kDone;
}

int parse(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(1, argc), argv + argc);
  try {
    if (arguments.empty()) {
      std::cerr << help_text(describe(app));
      return kUsage;
    }
    if (arguments.front() == "help") {
      return print_help(app, std::span(arguments).subspan(1));
    }
    if (!arguments.front().starts_with('-')) {
      (void)find_command(&app,
                         std::span(arguments).first(1));  // throws if there is no such command
    }
    reject_separate_json_file(arguments);
    parse_command_line(app, arguments);
    check_outputs(app);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help and --version
      return app.exit(error);
    }
    std::cerr << usage_message(app, error);
    return kUsage;
  }
  return kParsed;
}

// Returns "fovea 0.1.0" on a separate line for scripts, then details of the build.
std::string version_text() {
  const BuildInfo info = build_info();
  std::set<int> architectures;
  for (const gpu::KernelImage& image : gpu::kernel_images()) {
    architectures.insert(image.arch);
  }
  std::vector<std::string> libraries;
  libraries.reserve(info.libraries.size());
  for (const auto& [name, version] : info.libraries) {
    libraries.push_back(fmt::format("{} {}", name, version));
  }
  const std::string kernels = architectures.empty()
                                  ? "none: built without the CUDA compiler"
                                  : fmt::format("sm_{}", fmt::join(architectures, ", sm_"));
  return fmt::format(
      "fovea {}\n"
      "commit     {}\n"
      "build      {}\n"
      "CPU        {}\n"
      "kernels    {}\n"
      "libraries  {}",
      info.version, info.commit, info.build_type, info.instruction_set, kernels,
      fmt::join(libraries, "\n           "));
}

// Parses the command line and runs the command. Sets `environment` to the note to print if that
// fails.
int run_command(int argc, char** argv, std::string& environment) {
  CLI::App app("Fovea turns images into SigLIP 2 embeddings", "fovea");
  app.set_version_flag("-V,--version", [] { return version_text(); }, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit")->group(kReportGroup);
  app.get_option("--version")->group(kReportGroup);
  app.require_subcommand(1);
  /// Inherited by subcommands; --help shows defaults.
  app.option_defaults()->always_capture_default();
  begin_group(app, kInputGroup);
  app.formatter_fn([](const CLI::App* command, const std::string&, CLI::AppFormatMode) {
    return help_text(describe(*command));
  });
  Run run;
  add_commands(app, run);
  explain(app,
          {"`fovea help COMMAND` explains a command. Environment variables can set options: "
           "FOVEA_DEVICE=cpu is the same as --device cpu."},
          {"fovea pull google/siglip2-base-patch16-224",
           "fovea embed google/siglip2-base-patch16-224 photos -o OUT",
           "fovea similar cat.jpg --in OUT"});
  take_environment_when_chosen(app);
  if (const int code = parse(app, argc, argv); code != kParsed) {
    return code;
  }
  configure_messages(app);
  for (const std::string& sentence : unknown_variables(app)) {
    say(sentence);
  }
  io::on_missing_locks(say);
  environment = environment_note(app);
  forget_option_variables();
  return run();
}

// Describes the exception being handled; `code` is the value of errno when it was thrown.
std::string failure_message(int code) {
  try {
    throw;
  } catch (const std::ios_base::failure&) {
    return fmt::format("cannot write to the standard output: {}", std::strerror(code));
  } catch (...) {
    return current_exception_message();
  }
}

int run_program(int argc, char** argv) {
  std::string environment;
  try {
    // Makes the command fail when buffered results cannot be written.
    std::cout.exceptions(std::ios::badbit);
    const int code = run_command(argc, argv, environment);
    std::cout.flush();
    return code;
  } catch (const Interrupted&) {
    return kInterrupted;
  } catch (const UsageError& error) {
    std::cout.exceptions(std::ios::goodbit);
    say_error(error.what(), environment);
    return kUsage;
  } catch (...) {
    const int code = errno;
    std::cout.exceptions(std::ios::goodbit);  // because printing to stderr flushes std::cout again
    say_error(failure_message(code), environment);
  }
  return kFailed;
}

}  // namespace
}  // namespace fovea::cli

int main(int argc, char** argv) {
  fovea::cli::reserve_standard_descriptors();
  return fovea::cli::run_program(argc, argv);
}
