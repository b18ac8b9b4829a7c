// `fovea kernel`: the laboratory's commands on the cards of kernels.
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "gpu/device/device.hpp"
#include "lab/card.hpp"
#include "lab/check.hpp"

namespace fovea::cli {
namespace {

struct KernelArguments {
  std::vector<std::string> names;
  int device = 0;
  lab::CheckOptions check;
};

int list_cards() {
  for (const lab::Card& card : lab::cards()) {
    std::cout << fmt::format("{:<24} sm_{:<4} {}\n", card.name, card.arch, card.operation);
    for (const lab::Case& one : card.cases) {
      std::cout << fmt::format("    {:<28}{}{}{}\n", one.name, one.check ? " check" : "",
                               one.mutants ? " mutants" : "", one.bench ? " bench" : "");
    }
  }
  return kDone;
}

void print_check(const lab::CheckResult& result) {
  const lab::Verdict& verdict = result.verdict;
  std::cout << fmt::format("{} {} {}{}{}", result.passed ? "pass" : "FAIL", result.card,
                           result.case_name, result.what.empty() ? "" : ", ", result.what);
  if (verdict.framework_error > 0 && !result.what.starts_with("mutant")) {
    std::cout << fmt::format(
        ": error {:.2e} (framework {:.2e}), difference {:.1e}, worst tile {:.1e}", verdict.error,
        verdict.framework_error, verdict.difference, verdict.tile_difference);
  }
  if (!result.reason.empty()) {
    std::cout << (result.what.starts_with("mutant") && result.passed ? ": rejected: " : ": ")
              << result.reason;
  }
  std::cout << '\n' << std::flush;
}

int run_check(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  const std::unique_ptr<gpu::Device> device = gpu::open_cuda_device(arguments.device);
  std::cerr << "fovea: " << device->info().name << '\n';
  int count = 0;
  const int failed =
      lab::check(*device, cards, arguments.check, [&count](const lab::CheckResult& result) {
        ++count;
        print_check(result);
      });
  std::cout << fmt::format("{}/{} passed\n", count - failed, count);
  return failed == 0 ? kDone : kFailed;
}

}  // namespace

void add_kernel(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("kernel", "The laboratory: check and time GPU kernels");
  command->require_subcommand(1);
  const auto arguments = std::make_shared<KernelArguments>();
  const auto add = [&](const char* name, const char* help, int (*action)(const KernelArguments&)) {
    CLI::App* sub = command->add_subcommand(name, help);
    sub->callback(
        [arguments, action, &run] { run = [arguments, action] { return action(*arguments); }; });
    return sub;
  };
  const auto take_names = [&](CLI::App* sub) {
    sub->add_option("NAME", arguments->names,
                    "Cards, as `fovea kernel list` names them; none: all");
  };
  const auto take_device = [&](CLI::App* sub) {
    sub->add_option("--gpu", arguments->device, "Index of the GPU")->check(CLI::NonNegativeNumber);
  };

  add("list", "The cards and their cases", [](const KernelArguments&) { return list_cards(); });
  CLI::App* check =
      add("check", "Hold kernels against float64, and the gate against mistakes", run_check);
  take_names(check);
  take_device(check);
  check->add_option("--case", arguments->check.only_case, "Only this case");
  check->add_option("--seed", arguments->check.seed, "Draws other inputs");
  check->add_flag("--small", arguments->check.small,
                  "Only what is quick under compute-sanitizer, and no mutants");
}

}  // namespace fovea::cli
