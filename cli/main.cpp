// `fovea`: parses the command line, runs one subcommand, turns errors into exit codes.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <ios>
#include <iostream>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"

namespace fovea::cli {
namespace {

// Every long option can also be given as FOVEA_<NAME> in the environment, except those that delete
// or cut: a variable that was forgotten in a shell must not do that. A command may have named its
// variable itself.
void name_environment_variables(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const std::string long_name = option->get_lnames().empty() ? "" : option->get_lnames().front();
    if (long_name.empty() || long_name == "help" || long_name == "overwrite" ||
        long_name == "repair" || !option->get_envname().empty()) {
      continue;
    }
    std::string name = "FOVEA_";
    for (const char c : long_name) {
      name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    option->envname(name);
  }
}

// Variables are named only when their command is chosen: CLI11 applies them to all options that
// have one, those of other commands too, and refuses values that only those others do not take.
void take_environment_when_chosen(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    command->preparse_callback([command](std::size_t) { name_environment_variables(*command); });
    take_environment_when_chosen(*command);
  }
}

// "FOVEA_DEVICE=cuda" for each option of the chosen command that has its value from the
// environment. CLI11 holds a list in parts.
std::vector<std::string> taken_from_environment(const CLI::App& app) {
  std::vector<std::string> taken;
  for (const CLI::Option* option : app.get_options()) {
    const std::string& name = option->get_envname();
    const char* const value = name.empty() ? nullptr : std::getenv(name.c_str());
    if (value != nullptr && option->count() > 0 &&
        fmt::format("{}", fmt::join(option->results(), ",")) == value) {
      taken.push_back(fmt::format("{}={}", name, value));
    }
  }
  for (const CLI::App* command : app.get_subcommands()) {
    std::ranges::move(taken_from_environment(*command), std::back_inserter(taken));
  }
  return taken;
}

// Messages name the variables, because the command line does not show them.
std::string environment_note(const CLI::App& app) {
  const std::vector<std::string> taken = taken_from_environment(app);
  return taken.empty() ? "" : fmt::format("from the environment: {}", fmt::join(taken, ", "));
}

// error.what() may hold text from outside; the lines that CLI11 adds are ours.
std::string usage_message(const CLI::App& app, const CLI::Error& error) {
  const std::string message = CLI::FailureMessage::simple(&app, error);
  const std::size_t length = std::string_view(error.what()).size();
  const std::string environment = environment_note(app);
  return io::printable(message.substr(0, length)) + message.substr(length) +
         (environment.empty() ? "" : io::printable(environment) + "\n");
}

// Parses and runs. `environment` becomes the note to print when running fails.
int run_command(int argc, char** argv, std::string& environment) {
  CLI::App app("Fovea turns images into SigLIP 2 embeddings.", "fovea");
  app.set_version_flag("--version", "fovea " FOVEA_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();  // subcommands inherit it: --help shows defaults
  app.get_formatter()->column_width(38);
  Run run;
  add_embed(app, run);
  add_bench(app, run);
  add_calibrate(app, run);
  add_check(app, run);
  add_info(app, run);
  add_init(app, run);
  add_kernel(app, run);
  add_preprocess(app, run);
  add_pull(app, run);
  add_similar(app, run);
  add_verify(app, run);
  take_environment_when_chosen(app);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return usage_message(*failed, error);
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  environment = environment_note(app);
  return run();
}

// Describes the exception being handled; `code` is errno as it was thrown.
std::string failure_message(int code) {
  try {
    throw;
  } catch (const std::ios_base::failure&) {
    return fmt::format("cannot write to the standard output: {}", std::strerror(code));
  } catch (const Error& error) {
    return error.what();
  } catch (const std::bad_alloc&) {
    return "there is not enough memory for this; free some, raise the limit, or ask for fewer "
           "threads and smaller batches";
  } catch (const std::exception& error) {
    return fmt::format("internal error: {}", error.what());
  } catch (...) {
    return "internal error of an unknown kind";
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
