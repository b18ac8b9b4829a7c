// `fovea kernel export`: writes a case as a task for third-party kernels.
#include <string>

#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "io/atomic_file.hpp"
#include "lab/cards/card.hpp"
#include "lab/cards/torch_task.hpp"

namespace fovea::cli::kernel {
namespace {

struct ExportOptions : CardOptions {
  std::string case_name;
  bool kernelbench = false;  // whether to use KernelBench's format
  std::string output;
};

int run_export(const ExportOptions& options) {
  const lab::Card& card = single_card(options.cards);
  const lab::Case exported = lab::find_case(card, options.case_name);
  const std::string task = lab::to_kernelbench(card, exported);
  io::write_file_atomically(options.output, task);
  options.json.write(
      {{"card", card.name}, {"case", exported.name}, {"file", options.output}, {"task", task}});
  return kDone;
}

}  // namespace

void add_export(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "export", "Write a case as a task for third-party kernels", run_export);
  add_case(command, options.case_name);
  add_flag(command, "--kernelbench", options.kernelbench,
           "Use KernelBench's format: a Python file with Model, get_inputs and get_init_inputs")
      ->required()
      ->group(kOutputGroup);
  without_variable(add_output(command, options.output, OutputKind::kTask, "FILE", "File to write"));
  explain(command, {"The default case is the timed one."},
          {"fovea kernel export layer_norm --kernelbench -o task.py"});
}

}  // namespace fovea::cli::kernel
