// `fovea kernel report`, which makes one page of what was measured.
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "io/atomic_file.hpp"
#include "lab/report/report.hpp"

namespace fovea::cli {
namespace {

constexpr const char* kCommittedResults = "bench/results";

}  // namespace

int run_report(const KernelArguments& arguments) {
  std::vector<std::filesystem::path> inputs(arguments.names.begin(), arguments.names.end());
  if (inputs.empty()) {
    inputs.emplace_back(kCommittedResults);
  }
  const lab::Report report = lab::make_report(inputs);
  for (const std::string& line : report.left_out) {
    say("left out: " + line);
  }
  io::write_file_atomically(arguments.output, report.html);
  say(fmt::format("wrote {}, from {} file{} of results", printable_name(arguments.output),
                  report.documents, report.documents == 1 ? "" : "s"));
  return kDone;
}

}  // namespace fovea::cli
