// `fovea kernel predict`: predicts the time of kernels on a GPU, which need not be present.
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "lab/cards/card.hpp"
#include "lab/predict/gpu_rates.hpp"
#include "lab/predict/prediction.hpp"

namespace fovea::cli::kernel {
namespace {

struct PredictOptions : CardOptions {
  std::string gpu = "h200";
  std::string case_name;
  std::string kernel;
  bool counts = false;  // recount instructions instead of predicting times
};

constexpr std::size_t kMaxResources = 5;

void print_prediction(const lab::Prediction& prediction) {
  std::cout << fmt::format(
      "{} {}: {}\n  {}\n  {:.1f} us on {} at {:.2f} GHz, sustained {:.1f} us at {:.2f} GHz; bound "
      "by: {}\n",
      prediction.card, prediction.case_name, prediction.description, prediction.kernel,
      prediction.seconds * 1e6, prediction.gpu, prediction.clock * 1e-9, prediction.sustained * 1e6,
      prediction.sustained_clock * 1e-9, prediction.bound());
  for (std::size_t i = 0; i < std::min(kMaxResources, prediction.resources.size()); ++i) {
    const lab::ResourceTime& resource = prediction.resources[i];
    std::cout << fmt::format("    {:<18} {:>9.1f} us {:>4.0f}%\n", resource.name,
                             resource.seconds * 1e6, 100 * resource.seconds / prediction.seconds);
  }
  std::cout << fmt::format("    {:<18} {:>9.1f} us {:>4.0f}%\n", "launch and latency",
                           prediction.overhead * 1e6,
                           100 * prediction.overhead / prediction.seconds)
            << std::flush;
}

/// Returns the case that --case names, or all timed cases.
std::vector<lab::Case> cases_to_predict(const lab::Card& card, const std::string& name) {
  if (!name.empty()) {
    return {lab::find_case(card, name)};
  }
  std::vector<lab::Case> cases;
  for (const lab::Case& candidate : card.cases) {
    if (candidate.bench) {
      cases.push_back(candidate);
    }
  }
  return cases;
}

/// Counts the instructions of a kernel; an empty `name` means the launcher's choice.
nlohmann::ordered_json count_instructions(const lab::Card& card, const lab::Case& workload_case,
                                          const lab::GpuRates& rates, const std::string& name) {
  const std::unique_ptr<lab::Workload> workload = workload_case.make(1);
  const std::string kernel = name.empty() ? lab::launched_kernel(card, *workload, rates) : name;
  const auto units =
      lab::count_units(card, lab::compute_work(*workload, kernel, rates.sms), kernel, rates.arch);
  nlohmann::ordered_json counts;
  for (const auto& [member_name, member] : lab::kCountMembers) {
    counts[std::string(member_name)] = {units[0].*member, units[1].*member};
  }
  return {{"card", card.name},
          {"case", workload_case.name},
          {"kernel", kernel},
          {"code", lab::ptx_hash(kernel, rates.arch)},
          {"counts", std::move(counts)}};
}

int run_predict(const PredictOptions& options) {
  const lab::GpuRates& rates = lab::find_gpu_rates(options.gpu);
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards_with_level(options.cards, options.case_name, "")) {
    for (const lab::Case& workload_case : cases_to_predict(*card, options.case_name)) {
      try {
        if (options.counts) {
          json.push_back(count_instructions(*card, workload_case, rates, options.kernel));
          continue;
        }
        const lab::Prediction prediction =
            lab::predict(*card, workload_case.name, rates, options.kernel);
        json.push_back(nlohmann::ordered_json::parse(lab::to_json(prediction)));
        if (options.json.prints_text()) {
          print_prediction(prediction);
        }
      } catch (const Error& error) {
        // Some cards have no kernel for this GPU, and some have several kernels, for which there is
        // no model: print the reason, and predict the others.
        if (!options.cards.empty()) {
          throw;
        }
        say(fmt::format("{} {}: {}", card->name, workload_case.name, error.what()));
      }
    }
  }
  if (options.counts) {
    options.json.write({{"cases", std::move(json)}}, "counts");
  } else {
    options.json.write({{"predictions", std::move(json)}});
  }
  return kDone;
}

}  // namespace

void add_predict(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "predict", "Predict the time of kernels on a GPU, which need not be present",
      run_predict);
  without_variable(
      add_choice(command, "--gpu", lab::gpu_rate_names(), options.gpu, "The GPU to predict for"))
      ->group(kComputeGroup);
  add_text(command, "--kernel", "KERNEL", options.kernel,
           "Kernel that runs the case (default: the launcher's choice)");
  add_flag(command, "--counts", options.counts,
           "With --json, count the instructions of a unit of work again on the emulator, for "
           "scripts/count-instructions")
      ->needs(command.get_option("--json"))
      ->group(kReportGroup);
  explain(command,
          {"The time is computed from the instructions that the emulator counts, the bytes, and "
           "the GPU's published rates; see docs/laboratory.md. Cases without stored counts run on "
           "the emulator first, which takes seconds."},
          {"fovea kernel predict gemm_qkv_bf16",
           "fovea kernel predict gemm_fc1_int8 --problem m=4096 --gpu h100"});
  add_case(command, options.case_name);
}

}  // namespace fovea::cli::kernel
