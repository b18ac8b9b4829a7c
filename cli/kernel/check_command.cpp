// `fovea kernel check`: compares kernels with float64, on a GPU or on the emulator.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/emulated/captured_cases.hpp"
#include "lab/emulated/check_emulated.hpp"

namespace fovea::cli::kernel {
namespace {

struct CheckOptions : CardOptions {
  int gpu = 0;
  std::string emulator;  // emulator to run on; empty: run on a GPU
  int schedules = lab::EmulatedCheckOptions{}.schedules;
  std::string captures;  // file with the captured outputs of a GPU; empty: none
  bool largest_only = false;
  lab::CheckOptions check;
};

/// Prints a line for each card with its largest errors over all seeds.
void print_largest(const std::vector<lab::CheckResult>& results) {
  for (auto first = results.begin(); first != results.end(); ++first) {
    const auto same_card = [&](const lab::CheckResult& other) { return other.card == first->card; };
    if (std::find_if(results.begin(), first, same_card) != first) {
      continue;
    }
    double largest = 0.0;
    double largest_relative = 0.0;
    for (const lab::CheckResult& result : results) {
      if (same_card(result) && !result.what.starts_with("mutant")) {
        largest = std::max(largest, result.verdict.worst);
        largest_relative = std::max(largest_relative, result.verdict.worst_relative);
      }
    }
    std::cout << fmt::format("{}: max_abs {:.2e}, max_rel {:.2e}\n", first->card, largest,
                             largest_relative);
  }
}

/// Prints a line for each card with the differences between the emulator and the captures of a GPU.
/// Throws fovea::Error when there was nothing to compare.
void print_figures(const lab::CaseComparer& comparer, bool is_text, nlohmann::ordered_json& json) {
  int compared = 0;
  int differing = 0;
  json = {{"device", comparer.captured().device},
          {"driver", comparer.captured().driver},
          {"commit", comparer.captured().commit},
          {"cards", nlohmann::ordered_json::array()}};
  for (const auto& [card, figures] : comparer.figures()) {
    compared += figures.compared;
    differing += figures.differing;
    json["cards"].push_back({{"card", card},
                             {"compared", figures.compared},
                             {"differing", figures.differing},
                             {"changed", figures.changed},
                             {"missing", figures.missing},
                             {"approximate", figures.approximate},
                             {"numbers", figures.distance.numbers},
                             {"differing_numbers", figures.distance.differing},
                             {"ulps", figures.distance.ulps}});
    if (is_text) {
      std::cout << fmt::format("{}: {} compared, {} differ", card, figures.compared,
                               figures.differing);
      if (figures.approximate > 0) {
        std::cout << fmt::format(
            "; of {} values of approximate outputs, {} differ, by at most {} ulps",
            figures.distance.numbers, figures.distance.differing, figures.distance.ulps);
      }
      if (figures.changed > 0) {
        std::cout << fmt::format("; for {} that differ, the kernel has changed since the capture",
                                 figures.changed);
      }
      if (figures.missing > 0) {
        std::cout << fmt::format("; {} are not in the file in their current form", figures.missing);
      }
      std::cout << '\n';
    }
  }
  if (is_text) {
    std::cout << fmt::format("{}, commit {}: {} compared, {} differ\n",
                             io::printable(comparer.captured().device),
                             io::printable(comparer.captured().commit), compared, differing);
  }
  if (compared == 0) {
    throw Error("nothing was compared with the captures, because they are for other cases");
  }
}

int check_emulated(const CheckOptions& options, const std::vector<const lab::Card*>& cards) {
  const int arch = emulator_arch(options.emulator);
  const gpu::DeviceInfo info = gpu::open_emulated_device({.arch = arch})->info();
  lab::EmulatedCheckOptions emulated{.arch = arch,
                                     .seed = options.check.seed,
                                     .schedules = options.schedules,
                                     .only_case = options.check.only_case,
                                     .largest_only = options.largest_only};
  std::unique_ptr<lab::CaseComparer> comparer;
  if (!options.captures.empty()) {
    comparer = std::make_unique<lab::CaseComparer>(options.captures, arch);
    emulated.inspect = [&](const lab::EmulatedJob& job, const lab::CaseOutputs& ran) {
      return comparer->inspect(job, ran);
    };
  }
  say(info.name);
  std::vector<lab::CheckResult> results;
  const int failed = lab::check_emulated(cards, emulated, [&](const lab::CheckResult& result) {
    if (options.json.prints_text()) {
      print_check(result);
    }
    results.push_back(result);
  });
  if (options.json.prints_text()) {
    std::cout << fmt::format("{}/{} passed\n", results.size() - static_cast<std::size_t>(failed),
                             results.size());
  }
  auto json = nlohmann::ordered_json::parse(lab::to_json(info, results));
  if (comparer) {
    print_figures(*comparer, options.json.prints_text(), json["captures"]);
  }
  options.json.write(json);
  return failed == 0 ? kDone : kFailed;
}

int run_check(const CheckOptions& options) {
  const auto cards = cards_with_case(options.cards, options.check.only_case);
  if (options.emulator.empty() && !options.captures.empty()) {
    throw Error("--captures needs --device emu: it compares the emulator with a GPU");
  }
  if (options.emulator.empty() && options.largest_only) {
    throw Error("--largest-only needs --device emu: it selects cases for the emulator");
  }
  if (!options.emulator.empty()) {
    return check_emulated(options, cards);
  }
  const std::unique_ptr<gpu::Device> device = open_gpu(options.gpu);
  say(device->info().name);
  const bool one_seed = options.check.seeds == 1;
  std::vector<lab::CheckResult> results;
  const int failed = lab::check(
      *device, cards, options.check,
      [&](const lab::CheckResult& result) {
        if (options.json.prints_text() && (one_seed || !result.passed)) {
          print_check(result);
        }
        results.push_back(result);
      },
      [&](const lab::SeedResult& seed) {
        if (!options.json.prints_text()) {
          return;
        }
        std::cout << (one_seed ? "" : fmt::format("seed {}: ", seed.seed))
                  << fmt::format("{}/{} passed\n", seed.checked - seed.failed, seed.checked)
                  << std::flush;
      });
  if (options.json.prints_text() && !one_seed) {
    print_largest(results);
  }
  options.json.write(nlohmann::ordered_json::parse(lab::to_json(device->info(), results)));
  return failed == 0 ? kDone : kFailed;
}

}  // namespace

void add_check(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "check",
      "Compare kernels with float64 references, and verify that the check detects mutants",
      run_check);
  add_gpu(command, options.gpu);
  add_emulator(command, options.emulator)->excludes("--gpu");
  add_schedules(command, options.schedules);
  add_text(command, "--captures", "FILE", options.captures,
           "Also compare the emulator's outputs with a GPU's, in a file of `fovea kernel capture`");
  add_case(command, options.check.only_case);
  add_seed(command, options.check.seed);
  add_integer(command, "--seeds", {1, 1000}, options.check.seeds,
              "Number of consecutive seeds to check, from --seed on. Each seed after the first "
              "checks every card, plan and mutant on the small cases and on a different large one, "
              "and compares 12 tiles of an output instead of 48");
  add_flag(
      command, "--largest-only", options.largest_only,
      "On the emulator: run each kernel once, on the longest-running of the card's quick cases");
  add_flag(command, "--small", options.check.small,
           "Run only cases that are quick under compute-sanitizer, and no mutants");
  explain(command,
          {"The emulator runs one seed and no mutants, and reports wrong results and also errors "
           "such as races, which docs/emulator.md lists."},
          {"fovea kernel check gemm_qkv_bf16", "fovea kernel check --seeds 20",
           "fovea kernel check layer_norm --device emu:sm_80 --schedules 10"});
}

}  // namespace fovea::cli::kernel
