// `fovea`: parses the command line, runs one subcommand, turns errors into exit codes.
#include <cctype>
#include <exception>
#include <iostream>
#include <string>

#include "cli/commands.hpp"
#include "fovea/error.hpp"

namespace fovea::cli {
namespace {

// Every long option can also be given as FOVEA_<NAME> in the environment, but for the one that
// deletes: a variable forgotten in a shell must not.
void name_environment_variables(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help" ||
        option->get_lnames().front() == "overwrite") {
      continue;
    }
    std::string name = "FOVEA_";
    for (const char c : option->get_lnames().front()) {
      name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    option->envname(name);
  }
}

int run_program(int argc, char** argv) {
  CLI::App app("Fovea turns images into SigLIP 2 embeddings.", "fovea");
  app.set_version_flag("--version", "fovea " FOVEA_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();  // subcommands inherit it: --help shows defaults
  app.get_formatter()->column_width(38);
  Run run;
  add_embed(app, run);
  add_bench(app, run);
  add_calibrate(app, run);
  add_info(app, run);
  add_init(app, run);
  add_kernel(app, run);
  add_preprocess(app, run);
  add_pull(app, run);
  add_similar(app, run);
  add_verify(app, run);
  for (CLI::App* command : app.get_subcommands({})) {
    name_environment_variables(*command);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  try {
    return run();
  } catch (const Error& error) {
    std::cerr << "fovea: " << error.what() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "fovea: internal error: " << error.what() << '\n';
  }
  return kFailed;
}

}  // namespace
}  // namespace fovea::cli

int main(int argc, char** argv) {
  return fovea::cli::run_program(argc, argv);
}
