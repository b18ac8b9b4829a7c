// Finds the cards, GPUs and sources that a command names, so that mistakes are reported before long
// work.
#include "cli/kernel/cards.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "cli/terminal.hpp"
#include "core/device_name.hpp"
#include "core/error.hpp"
#include "fovea/error.hpp"
#include "io/nearest.hpp"
#include "lab/card_files/card_file.hpp"

namespace fovea::cli::kernel {

// Replaces the advice in the device's message, which names an option that these commands do not
// have.
std::unique_ptr<gpu::Device> open_gpu(int index, const OpenGpu& open) {
  try {
    return open(index);
  } catch (const gpu::NoGpu& error) {
    const std::string reason = error.what();
    throw Error(reason.substr(0, reason.find(';')) +
                "; this command needs an NVIDIA GPU. Without one, `fovea kernel check --device "
                "emu`, `emulate` and `mutate` run kernels on the emulator; list, parameters, "
                "predict, try, evolve, resources, sass, export and judge also work without a GPU");
  }
}

std::unique_ptr<gpu::Device> try_open_gpu(int index) {
  try {
    return gpu::open_cuda_device(index);
  } catch (const gpu::NoGpu&) {
    return nullptr;
  }
}

int emulator_arch(const std::string& emulator) {
  return parse_device(emulator.empty() ? "emu" : emulator).value_or(DeviceName{}).number;
}

const lab::Card& single_card(std::span<const std::string> names) {
  const std::vector<const lab::Card*> cards = lab::named_cards(names);
  if (names.size() != 1) {
    throw Error("this command takes one card; `fovea kernel list` lists them");
  }
  return *cards.front();
}

std::vector<const lab::Card*> cards_with_case(std::span<const std::string> names,
                                              const std::string& case_name) {
  std::vector<const lab::Card*> cards = lab::named_cards(names);
  std::vector<std::string> case_names;
  for (const lab::Card* const card : cards) {
    if (lab::ProblemFields::are(case_name)) {
      case_names.push_back(lab::find_case(*card, case_name).name);
    }
    std::ranges::transform(card->cases, std::back_inserter(case_names), &lab::Case::name);
  }
  if (!case_name.empty() && std::ranges::find(case_names, case_name) == case_names.end()) {
    const std::string hint = io::did_you_mean(case_name, case_names);
    fail_usage("no case '{}'{}", case_name,
               hint.empty() ? "; `fovea kernel list -v` lists them" : hint);
  }
  return cards;
}

std::vector<const lab::Card*> cards_with_level(std::span<const std::string> names,
                                               const std::string& case_name,
                                               const std::string& level) {
  std::vector<const lab::Card*> cards = lab::named_cards(names);
  for (const lab::Card* const card : cards) {
    static_cast<void>(lab::find_case(*card, case_name));
    if (!level.empty()) {
      lab::require_level(*card, level);
    }
  }
  return cards;
}

lab::KernelSources load_kernel_sources(const std::string& folder) {
  return folder.empty() ? lab::KernelSources::built_in() : lab::KernelSources::from_folder(folder);
}

std::string current_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
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

}  // namespace fovea::cli::kernel
