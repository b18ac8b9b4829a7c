// `fovea kernel capture`: saves the outputs of a GPU for the cases that `check` emulates.
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "lab/captures/results.hpp"
#include "lab/emulated/captured_cases.hpp"
#include "lab/emulated/check_emulated.hpp"

namespace fovea::cli::kernel {
namespace {

struct CaptureOptions : CardOptions {
  int gpu = 0;
  std::string emulator;  // emulator to run on; empty: run on a GPU
  lab::EmulatedCheckOptions check;
  int words = 0;  // number of words per output; 0: the default
  std::string output;
};

int run_capture(const CaptureOptions& options) {
  const auto cards = cards_with_case(options.cards, options.check.only_case);
  const std::unique_ptr<gpu::Device> gpu =
      options.emulator.empty() ? open_gpu(options.gpu, lab::open_as_emulated) : nullptr;
  lab::EmulatedCheckOptions check = options.check;
  check.arch = gpu ? gpu->info().arch() : emulator_arch(options.emulator);
  check.gpu = gpu.get();
  const gpu::DeviceInfo info =
      gpu ? gpu->info() : gpu::open_emulated_device({.arch = check.arch})->info();
  say(info.name);
  lab::CaseRecorder recorder(info, static_cast<std::size_t>(options.words));
  check.inspect = [&](const lab::EmulatedJob& job, const lab::CaseOutputs& outputs) {
    return recorder.inspect(job, outputs);
  };
  std::size_t run_count = 0;
  const int failed = lab::check_emulated(cards, check, [&](const lab::CheckResult& result) {
    ++run_count;
    if (!result.passed && options.json.prints_text()) {
      print_check(result);
    }
  });
  const std::size_t bytes = captures::write_results(options.output, recorder.results());
  const std::size_t saved_kernels = recorder.results().kernels.size();
  if (options.json.prints_text()) {
    std::cout << fmt::format("{} of {} cases passed; wrote the outputs of {} to {} ({} bytes)\n",
                             run_count - static_cast<std::size_t>(failed), run_count, saved_kernels,
                             options.output, bytes);
  }
  options.json.write({{"device", info.name},
                      {"run", run_count},
                      {"failed", failed},
                      {"kept", saved_kernels},
                      {"bytes", bytes}});
  return failed == 0 ? kDone : kFailed;
}

}  // namespace

void add_capture(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "capture",
      "Save a GPU's outputs for the small cases of cards, for comparison with the emulator",
      run_capture);
  add_gpu(command, options.gpu);
  add_emulator(command, options.emulator)->excludes("--gpu");
  add_schedules(command, options.check.schedules);
  add_case(command, options.check.only_case);
  add_seed(command, options.check.seed);
  add_integer(command, "--words", {0, 1 << 30}, options.words,
              "Number of 4-byte words to save from each output, spread evenly, in addition to its "
              "hash (0: 53 for approximate outputs, 5 for others)")
      ->group(kOutputGroup);
  without_variable(
      add_output(command, options.output, OutputKind::kCaptures, "FILE", "File to write"));
  explain(command,
          {"Cases, inputs, plans and grids are the same as in `fovea kernel check --device emu`, "
           "which reads the file with --captures. Wrong outputs are reported and not saved."},
          {"fovea kernel capture -o h100.captures"});
}

}  // namespace fovea::cli::kernel
