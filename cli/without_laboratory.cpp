// Stubs of the laboratory's commands for builds without it, which tell how to build it.
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/commands.hpp"
#include "cli/output_kinds.hpp"
#include "core/error.hpp"

namespace fovea::cli {
namespace {

void add_stub(CLI::App& app, Run& run, const std::string& name) {
  CLI::App* command = app.add_subcommand(name, "Not part of this build; scripts/build includes it");
  command->prefix_command();
  command->callback([&run, name] {
    run = [name]() -> int {
      fail(
          "`fovea {}` is part of the laboratory, which this build does not include; scripts/build "
          "includes it",
          name);
    };
  });
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  add_stub(app, run, "bench");
}

void add_kernel(CLI::App& app, Run& run) {
  add_stub(app, run, "kernel");
}

void add_emulate(CLI::App& app, Run& run) {
  add_stub(app, run, "emulate");
}

bool is_captures_file(const std::filesystem::path& /*file*/) {
  return false;
}

std::vector<std::filesystem::path> profile_files(const std::string& /*value*/) {
  return {};
}

}  // namespace fovea::cli
