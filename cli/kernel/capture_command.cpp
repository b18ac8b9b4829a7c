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
  std::string emulator;  // to run on; empty: a GPU
  lab::EmulatedCheckOptions check;
  int words = 0;  // per output; 0: the default
  std::string output;
};

int run_capture(const CaptureOptions& options) {
  const auto cards = cards_with_case(options.cards, options.check.only_case);
  const std::unique_ptr<gpu::Device> gpu =
      options.emulator.empty() ? open_gpu(options.gpu, lab::open_as_emulated) : nullptr;
  lab::EmulatedCheckOptions check = options.check;
  check.arch = gpu ? gpu->info().arch() : arch_of_emulator(options.emulator);
  check.gpu = gpu.get();
  const gpu::DeviceInfo info =
      gpu ? gpu->info() : gpu::open_emulated_device({.arch = check.arch})->info();
  say(info.name);
  lab::CaseRecorder recorder(info, static_cast<std::size_t>(options.words));
  check.inspect = [&](const lab::EmulatedJob& job, const lab::Ran& ran) {
    return recorder.inspect(job, ran);
  };
  std::size_t run = 0;
  const int failed = lab::check_emulated(cards, check, [&](const lab::CheckResult& result) {
    ++run;
    if (!result.passed && options.json.leaves_text()) {
      print_check(result);
    }
  });
  const std::size_t bytes = captures::write_results(options.output, recorder.results());
  const std::size_t kept = recorder.results().kernels.size();
  if (options.json.leaves_text()) {
    std::cout << fmt::format("{} of {} passed, the outputs of {} are in {}: {} bytes\n",
                             run - static_cast<std::size_t>(failed), run, kept, options.output,
                             bytes);
  }
  options.json.write(
      {{"device", info.name}, {"run", run}, {"failed", failed}, {"kept", kept}, {"bytes", bytes}});
  return failed == 0 ? kDone : kFailed;
}

}  // namespace

void add_capture(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "capture",
      "Save the outputs of a GPU for the cards' small cases, to compare the emulator with them",
      run_capture);
  add_gpu(command, options.gpu);
  add_emulator(command, options.emulator)->excludes("--gpu");
  add_schedules(command, options.check.schedules);
  add_case(command, options.check.only_case);
  add_seed(command, options.check.seed);
  add_whole(command, "--words", {0, 1 << 30}, options.words,
            "Number of 4-byte words to keep of each output beside its hash, spread over it (0: 53 "
            "for approximate outputs, 5 for others)")
      ->group(kOutputGroup);
  without_variable(
      add_output(command, options.output, OutputKind::kCaptures, "FILE", "File to write"));
  explain(command,
          {"The cases, inputs, plans and grids are those of `fovea kernel check --device emu`, "
           "which takes the file by --captures. Wrong outputs are reported and not saved."},
          {"fovea kernel capture -o h100.captures"});
}

}  // namespace fovea::cli::kernel
