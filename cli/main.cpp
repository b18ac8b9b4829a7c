// `fovea`: parses the command line, runs one subcommand, turns errors into exit codes.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <ios>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/environment.hpp"
#include "cli/help.hpp"
#include "cli/json_output.hpp"
#include "cli/options.hpp"
#include "cli/outputs.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "cli/version.hpp"
#include "core/error.hpp"
#include "fovea/error.hpp"
#include "io/file_lock.hpp"

namespace fovea::cli {
namespace {

constexpr int kParsed = -1;

void add_commands(CLI::App& app, Run& run) {
  add_embed(app, run);
  add_search(app, run);
  add_similar(app, run);
  add_label(app, run);
  add_heat(app, run);
  add_info(app, run);
  add_pull(app, run);
  add_verify(app, run);
  add_check(app, run);
  add_merge(app, run);
  add_bench(app, run);
  add_calibrate(app, run);
  add_preprocess(app, run);
  add_tokenize(app, run);
  add_init(app, run);
  add_kernel(app, run);
  add_emulate(app, run);
  add_completion(app, run);
  add_manual(app, run);
}

// `fovea help COMMAND` is `fovea COMMAND --help`.
int print_help(const CLI::App& app, std::span<const std::string> words) {
  std::cout << help_text(describe(*find_command(&app, words)));
  return kDone;
}

int parse(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(1, argc), argv + argc);
  try {
    if (words.empty()) {
      std::cerr << help_text(describe(app));
      return kUsage;
    }
    if (words.front() == "help") {
      return print_help(app, std::span(words).subspan(1));
    }
    if (!words.front().starts_with('-')) {
      (void)find_command(&app, std::span(words).first(1));  // throws where there is no such command
    }
    refuse_separate_json_file(words);
    parse_as_typed(app, words);
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

// Parses and runs. `environment` becomes the note to print when running fails.
int run_command(int argc, char** argv, std::string& environment) {
  CLI::App app("Fovea turns images into SigLIP 2 embeddings", "fovea");
  app.set_version_flag("-V,--version", [] { return version_text(); }, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit")->group(kReportGroup);
  app.get_option("--version")->group(kReportGroup);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();  // subcommands inherit it: --help shows defaults
  app.formatter_fn([](const CLI::App* command, const std::string&, CLI::AppFormatMode) {
    return help_text(describe(*command));
  });
  Run run;
  add_commands(app, run);
  explain(app,
          {"`fovea help COMMAND` explains a command. Variables set options, too: FOVEA_DEVICE=cpu "
           "is --device cpu."},
          {"fovea pull google/siglip2-base-patch16-224",
           "fovea embed google/siglip2-base-patch16-224 photos -o OUT",
           "fovea similar cat.jpg --in OUT"});
  take_environment_when_chosen(app);
  if (const int code = parse(app, argc, argv); code != kParsed) {
    return code;
  }
  set_messages_of(app);
  for (const std::string& sentence : unknown_variables(app)) {
    say(sentence);
  }
  io::on_missing_locks(say);
  environment = environment_note(app);
  forget_option_variables();
  return run();
}

// Describes the exception being handled; `code` is errno as it was thrown.
std::string failure_message(int code) {
  try {
    throw;
  } catch (const std::ios_base::failure&) {
    return fmt::format("cannot write to the standard output: {}", std::strerror(code));
  } catch (...) {
    return words_of_current_exception();
  }
}

int run_program(int argc, char** argv) {
  std::string environment;
  try {
    // A command fails when its results cannot be written, those in the buffer included.
    std::cout.exceptions(std::ios::badbit);
    const int code = run_command(argc, argv, environment);
    std::cout.flush();
    return code;
  } catch (const Interrupted&) {
    return kInterrupted;
  } catch (...) {
    const int code = errno;
    std::cout.exceptions(std::ios::goodbit);  // printing to stderr flushes it once more
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
