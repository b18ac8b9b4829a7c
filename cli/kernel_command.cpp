// `fovea kernel list`, `check` and `resources`.
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "io/nearest.hpp"
#include "lab/cards/card.hpp"
#include "lab/cards/card_json.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/code/resources.hpp"

namespace fovea::cli {
// The device's own message advises an option that these commands do not have.
std::unique_ptr<gpu::Device> open_gpu(const KernelArguments& arguments, const OpenGpu& open) {
  try {
    return open(arguments.device);
  } catch (const gpu::NoGpu& error) {
    const std::string reason = error.what();
    throw Error(
        reason.substr(0, reason.find(';')) +
        "; this command needs an NVIDIA GPU. Without one `fovea kernel check --device emu`, "
        "`emulate` and `mutate` run kernels on the emulator; list, parameters, predict, try, "
        "evolve, resources, sass, export and judge do without, too");
  }
}

std::unique_ptr<gpu::Device> open_gpu_if_any(const KernelArguments& arguments) {
  try {
    return gpu::open_cuda_device(arguments.device);
  } catch (const gpu::NoGpu&) {
    return nullptr;
  }
}

void require_case(const std::vector<const lab::Card*>& cards, const std::string& name) {
  std::vector<std::string> known;
  for (const lab::Card* const card : cards) {
    if (lab::ProblemFields::are(name)) {
      known.push_back(lab::find_case(*card, name).name);
    }
    std::ranges::transform(card->cases, std::back_inserter(known), &lab::Case::name);
  }
  if (!name.empty() && std::ranges::find(known, name) == known.end()) {
    const std::string hint = io::did_you_mean(name, known);
    throw Error(fmt::format("no case '{}'{}", name,
                            hint.empty() ? "; `fovea kernel list -v` names them" : hint));
  }
}

int run_list(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  const std::unique_ptr<gpu::Device> device =
      arguments.json.is_wanted() ? open_gpu_if_any(arguments) : nullptr;
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards) {
    if (arguments.json.is_wanted()) {
      json.push_back(nlohmann::ordered_json::parse(
          lab::to_json(*card, device.get(), !arguments.names.empty())));
    }
    if (!arguments.json.leaves_text()) {
      continue;
    }
    std::cout << fmt::format("{:<24} {:<20} {}\n", card->name,
                             fmt::format("sm_{}", fmt::join(lab::archs_of(*card), ", sm_")),
                             card->operation);
    for (const lab::Case& one : card->cases) {
      if (arguments.verbose) {
        std::cout << fmt::format("    {:<28}{}{}{}\n", one.name, one.check ? " check" : "",
                                 one.mutants ? " mutants" : "", one.bench ? " bench" : "");
      }
    }
  }
  arguments.json.write({{"cards", std::move(json)}});
  return kDone;
}

void print_check(const lab::CheckResult& result) {
  const lab::Verdict& verdict = result.verdict;
  std::cout << fmt::format("{} {} {}{}{}", result.passed ? "pass" : "FAIL", result.card,
                           result.case_name, result.what.empty() ? "" : ", ", result.what);
  if (!result.passed) {
    std::cout << fmt::format(", seed {}", result.seed);
  }
  if (verdict.framework_error > 0 && !result.what.starts_with("mutant")) {
    std::cout << fmt::format(
        ": max_abs {:.2e}, max_rel {:.2e}, error {:.2e} (framework {:.2e}), difference {:.1e}, "
        "worst "
        "tile {:.1e}",
        verdict.worst, verdict.worst_relative, verdict.error, verdict.framework_error,
        verdict.difference, verdict.tile_difference);
  }
  if (!result.reason.empty()) {
    std::cout << (result.what.starts_with("mutant") && result.passed ? ": rejected: " : ": ")
              << io::printable(result.reason);
  }
  std::cout << '\n' << std::flush;
}

namespace {

/// A line for each card: its largest errors over all seeds.
void print_largest(const std::vector<lab::CheckResult>& results) {
  for (auto first = results.begin(); first != results.end(); ++first) {
    const auto same_card = [&](const lab::CheckResult& one) { return one.card == first->card; };
    if (std::find_if(results.begin(), first, same_card) != first) {
      continue;
    }
    double most = 0.0;
    double most_relative = 0.0;
    for (const lab::CheckResult& one : results) {
      if (same_card(one) && !one.what.starts_with("mutant")) {
        most = std::max(most, one.verdict.worst);
        most_relative = std::max(most_relative, one.verdict.worst_relative);
      }
    }
    std::cout << fmt::format("{}: max_abs {:.2e}, max_rel {:.2e}\n", first->card, most,
                             most_relative);
  }
}

}  // namespace

int run_check(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  require_case(cards, arguments.check.only_case);
  if (arguments.emulator.empty() && !arguments.captures.empty()) {
    throw Error("--captures compares the emulator with a GPU: give --device emu, too");
  }
  if (!arguments.emulator.empty()) {
    return run_check_emulated(arguments, cards);
  }
  const std::unique_ptr<gpu::Device> device = open_gpu(arguments);
  say(device->info().name);
  const bool one_seed = arguments.check.seeds == 1;
  std::vector<lab::CheckResult> results;
  const int failed = lab::check(
      *device, cards, arguments.check,
      [&](const lab::CheckResult& result) {
        if (arguments.json.leaves_text() && (one_seed || !result.passed)) {
          print_check(result);
        }
        results.push_back(result);
      },
      [&](const lab::SeedResult& seed) {
        if (!arguments.json.leaves_text()) {
          return;
        }
        std::cout << (one_seed ? "" : fmt::format("seed {}: ", seed.seed))
                  << fmt::format("{}/{} passed\n", seed.checked - seed.failed, seed.checked)
                  << std::flush;
      });
  if (arguments.json.leaves_text() && !one_seed) {
    print_largest(results);
  }
  arguments.json.write(nlohmann::ordered_json::parse(lab::to_json(device->info(), results)));
  return failed == 0 ? kDone : kFailed;
}

int run_resources(const KernelArguments& arguments) {
  const std::vector<gpu::KernelImage> images = images_of(arguments);
  std::size_t over = 0;
  auto json = nlohmann::ordered_json::array();
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{:<50} {:<5} {:>4} {:>6} {:>5} {:>5}\n", "kernel", "arch", "regs",
                             "shared", "local", "spilt");
  }
  for (const lab::ImageReport& report : lab::check_resources(lab::find_cards({}), images)) {
    const gpu::KernelImage& image = *report.image;
    over += report.faults.empty() ? 0 : 1;
    json.push_back(nlohmann::ordered_json::parse(lab::to_json(report)));
    if (arguments.json.leaves_text()) {
      std::cout << fmt::format("{:<50} sm_{:<2} {:>4} {:>6} {:>5} {:>5}\n{}", image.name,
                               image.arch, image.registers, image.shared_bytes, image.stack_bytes,
                               image.spill_store_bytes + image.spill_load_bytes,
                               over_limits(report.faults));
    }
  }
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{}/{} within their limits\n", images.size() - over, images.size());
  }
  arguments.json.write({{"kernels", std::move(json)}});
  return over == 0 ? kDone : kFailed;
}

}  // namespace fovea::cli
