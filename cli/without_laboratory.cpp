// Stubs of the laboratory's commands for builds without it: they say how to build it.
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/commands.hpp"
#include "cli/output_kinds.hpp"
#include "core/error.hpp"

namespace fovea::cli {
namespace {

void add_absent(CLI::App& app, Run& run, const std::string& name) {
  CLI::App* command = app.add_subcommand(name, "Not in this build: scripts/build builds it");
  command->prefix_command();
  command->callback([&run, name] {
    run = [name]() -> int {
      fail(
          "this program was built without the laboratory, which has `fovea {}`; scripts/build "
          "builds it",
          name);
    };
  });
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  add_absent(app, run, "bench");
}

void add_kernel(CLI::App& app, Run& run) {
  add_absent(app, run, "kernel");
}

void add_emulate(CLI::App& app, Run& run) {
  add_absent(app, run, "emulate");
}

bool are_captures(const std::filesystem::path& /*file*/) {
  return false;
}

std::vector<std::filesystem::path> profile_files(const std::string& /*value*/) {
  return {};
}

}  // namespace fovea::cli
