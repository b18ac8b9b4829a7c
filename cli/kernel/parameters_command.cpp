// `fovea kernel parameters`: lists the tuning parameters of the kernels that can run a case.
#include <iostream>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "gpu/device/device.hpp"
#include "lab/evolve/candidate.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::cli::kernel {
namespace {

struct ParametersOptions : CardOptions {
  int gpu = 0;
  lab::CandidateSetting setting;
};

int run_parameters(const ParametersOptions& options) {
  lab::CandidateSetting setting = options.setting;
  setting.card = &single_card(options.cards);
  const std::unique_ptr<gpu::Device> device = try_open_gpu(options.gpu);
  const gpu::DeviceInfo info = device == nullptr ? lab::assumed_device() : device->info();
  const std::vector<lab::TuningSpace> spaces =
      lab::tuning_spaces(info, lab::KernelSources::built_in(), setting);
  if (options.json.prints_text()) {
    for (const lab::TuningSpace& space : spaces) {
      std::cout << fmt::format("{}\n", space.kernel);
      for (const lab::ParameterRange& range : space.ranges) {
        std::cout << fmt::format("    {:<14} {:>4}   of {}\n", range.name,
                                 lab::value_of(space.values, range.name),
                                 fmt::join(range.values, ", "));
      }
    }
  }
  options.json.write({{"kernels", nlohmann::ordered_json::parse(lab::to_json(spaces))}});
  return kDone;
}

}  // namespace

void add_parameters(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "parameters",
      "List the tuning parameters of the kernels that can run a case, with their allowed values",
      run_parameters);
  add_level_on_gpu(command, options.gpu, options.setting.case_name, options.setting.level);
  explain(command, {}, {"fovea kernel parameters attention --level wmma"});
}

}  // namespace fovea::cli::kernel
