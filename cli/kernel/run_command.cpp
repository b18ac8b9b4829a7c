// `fovea kernel run`: launches one case and nothing else, or measures its time on request.
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "fovea/error.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/prepared_case.hpp"
#include "lab/measure/steps.hpp"

namespace fovea::cli::kernel {
namespace {

struct RunOptions : CardOptions {
  int gpu = 0;
  lab::CaseSpec launch;
  int times = 1;
  bool steps = false;
};

int run_case(const RunOptions& options) {
  const auto cards =
      cards_with_level(options.cards, options.launch.case_name, options.launch.level);
  if (options.steps && cards.size() != 1) {
    throw Error("--steps takes one card");
  }
  const std::unique_ptr<gpu::Device> device = open_gpu(options.gpu);
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards) {
    lab::CaseSpec launch = options.launch;
    launch.card = card;
    if (options.steps) {
      lab::run_steps(*device, launch, std::cin, std::cout);
      return kDone;
    }
    lab::run_case(*device, launch, options.times);
    json.push_back({{"card", card->name},
                    {"case", lab::find_case(*card, launch.case_name).name},
                    {"launches", options.times}});
  }
  options.json.write({{"launches", std::move(json)}});
  return kDone;
}

}  // namespace

void add_run(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "run", "Launch one case and nothing else, for profilers", run_case);
  add_launch(command, options.gpu, options.launch);
  add_integer(command, "--times", {1, 1000000}, options.times, "Number of launches");
  add_flag(command, "--steps", options.steps,
           "Print {\"ready\": ...} when inputs and clocks are ready, then measure a time for each "
           "input line \"sample\", until the input ends");
  explain(command, {}, {"ncu fovea kernel run attention"});
}

}  // namespace fovea::cli::kernel
