// `fovea kernel`: the laboratory's commands, which work on the cards of kernels.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "io/atomic_file.hpp"
#include "lab/bench_cards.hpp"
#include "lab/card.hpp"
#include "lab/check_cards.hpp"
#include "lab/machine_code.hpp"
#include "lab/profile.hpp"
#include "lab/resources.hpp"

namespace fovea::cli {
namespace {

struct KernelArguments {
  std::vector<std::string> names;
  int device = 0;
  lab::CheckOptions check;
  lab::BenchOptions bench;
  std::string json;
  bool dump = false;
  bool as_json = false;
  std::string level;
  bool gate = false;
  int times = 1;
};

int run_list(const KernelArguments& arguments) {
  for (const lab::Card* const card : lab::find_cards(arguments.names)) {
    std::cout << fmt::format("{:<24} sm_{:<4} {}\n", card->name, card->arch, card->operation);
    for (const lab::Case& one : card->cases) {
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
  if (!result.passed) {
    std::cout << fmt::format(", seed {}", result.seed);
  }
  if (verdict.framework_error > 0 && !result.what.starts_with("mutant")) {
    std::cout << fmt::format(
        ": error {:.2e} (framework {:.2e}), difference {:.1e}, worst tile {:.1e}", verdict.error,
        verdict.framework_error, verdict.difference, verdict.tile_difference);
  }
  if (!result.reason.empty()) {
    std::cout << (result.what.starts_with("mutant") && result.passed ? ": rejected: " : ": ")
              << io::printable(result.reason);
  }
  std::cout << '\n' << std::flush;
}

int run_check(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  const std::unique_ptr<gpu::Device> device = gpu::open_cuda_device(arguments.device);
  say(device->info().name);
  const bool one_seed = arguments.check.seeds == 1;
  std::vector<lab::CheckResult> results;
  const int failed = lab::check(
      *device, cards, arguments.check,
      [&](const lab::CheckResult& result) {
        if (one_seed || !result.passed) {
          print_check(result);
        }
        results.push_back(result);
      },
      [=](const lab::SeedResult& seed) {
        std::cout << (one_seed ? "" : fmt::format("seed {}: ", seed.seed))
                  << fmt::format("{}/{} passed\n", seed.checked - seed.failed, seed.checked)
                  << std::flush;
      });
  if (!arguments.json.empty()) {
    io::write_file_atomically(arguments.json, lab::to_json(device->info(), results) + '\n');
  }
  return failed == 0 ? kDone : kFailed;
}

std::string share(double value, double of) {
  return of > 0 ? fmt::format("{:.1f}%", 100 * value / of) : std::string("-");
}

void print_timing(const lab::Timing& timing) {
  std::cout << fmt::format("{:.4f} ms +- {:.1f}%, sustained {:.4f} ms", timing.seconds * 1e3,
                           50 * timing.spread / timing.seconds, timing.sustained * 1e3);
}

void print_figure(const lab::BenchFigure& figure, const lab::Ceilings& ceilings) {
  const double seconds = figure.timing.seconds;
  std::cout << fmt::format("{} {}{}{}: {}\n", figure.card, figure.case_name,
                           figure.plan.empty() ? "" : ", plan ", figure.plan, figure.description)
            << "  fovea: ";
  print_timing(figure.timing);
  std::cout << fmt::format(
      ", {:.1f} TFLOP/s ({} of the matrix ceiling), {:.0f} GB/s ({} of the copy ceiling), "
      "{} MHz, {:.0f} W{}\n",
      figure.flops / seconds * 1e-12, share(figure.flops / seconds, figure.matrix_ceiling),
      figure.bytes / seconds * 1e-9, share(figure.bytes / seconds, ceilings.copy_bytes_per_second),
      figure.timing.sm_mhz, figure.timing.watts,
      figure.timing.dropped > 0 ? fmt::format(", {} slowed samples dropped", figure.timing.dropped)
                                : "");
  std::cout << fmt::format(
      "  gate: error {:.2e} (framework {:.2e}), difference {:.1e}, worst tile {:.1e}\n",
      figure.verdict.error, figure.verdict.framework_error, figure.verdict.difference,
      figure.verdict.tile_difference);
  if (figure.smoke.has_value()) {
    std::cout << fmt::format(
        "  checksum: {:.0f} over the first {} outputs on uniform data ({:.0f} expected)\n",
        figure.smoke->sum, figure.smoke->count, figure.smoke->expected);
  }
  for (const lab::PeerFigure& peer : figure.peers) {
    std::cout << fmt::format("  {}: ", peer.timing.name);
    print_timing(peer.timing);
    std::cout << fmt::format(", ratio {:.2f}, sustained {:.2f}{}{}{}\n", peer.ratio,
                             peer.sustained_ratio, peer.ambiguous ? ", AMBIGUOUS" : "",
                             peer.same_result ? "" : ", leaves work undone",
                             peer.wrong.empty() ? "" : ", WRONG: " + io::printable(peer.wrong));
  }
  std::cout << std::flush;
}

int run_bench(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  if (!arguments.json.empty()) {
    lab::check_json_file(arguments.json);  // now, not after minutes
  }
  const std::unique_ptr<gpu::Device> device = gpu::open_cuda_device(arguments.device);
  say(device->info().name);
  lab::Ceilings ceilings;
  const lab::BenchReport report = lab::bench(
      *device, cards, arguments.bench,
      [&](const lab::Ceilings& measured) {
        ceilings = measured;
        std::cout << fmt::format(
                         "ceilings: copy {:.0f} GB/s, bf16 {:.0f} TFLOP/s, e4m3 {:.0f} TFLOP/s\n",
                         ceilings.copy_bytes_per_second * 1e-9, ceilings.bf16_flops * 1e-12,
                         ceilings.e4m3_flops * 1e-12)
                  << std::flush;
      },
      [&](const lab::BenchFigure& figure) { print_figure(figure, ceilings); },
      [](const lab::BenchFigure& figure) {
        std::cout << fmt::format("{} {}: not timed, because its output is wrong: {}\n", figure.card,
                                 figure.case_name, io::printable(figure.verdict.reason))
                  << std::flush;
      });
  for (const std::string& missing : report.missing) {
    say("not measured: " + missing);
  }
  if (!arguments.json.empty()) {
    lab::write_json(report, arguments.json);
  }
  return report.failed == 0 ? kDone : kFailed;
}

/// The named cards, each of which must have the case and the level. This is checked before a GPU is
/// opened.
std::vector<const lab::Card*> cards_to_run(const KernelArguments& arguments) {
  std::vector<const lab::Card*> cards = lab::find_cards(arguments.names);
  for (const lab::Card* const card : cards) {
    static_cast<void>(lab::find_case(*card, arguments.check.only_case));
    if (!arguments.level.empty()) {
      lab::require_level(*card, arguments.level);
    }
  }
  return cards;
}

int run_once(const KernelArguments& arguments) {
  const std::vector<const lab::Card*> cards = cards_to_run(arguments);
  const std::unique_ptr<gpu::Device> device = gpu::open_cuda_device(arguments.device);
  for (const lab::Card* const card : cards) {
    lab::run_case(*device, *card, arguments.check.only_case, arguments.level, arguments.check.seed,
                  arguments.times);
  }
  return kDone;
}

/// Compares the levels of the cards, or the one asked for, with their gates.
int run_gates(const KernelArguments& arguments, const std::string& self) {
  std::vector<std::pair<const lab::Card*, const lab::ProfileGate*>> gates;
  std::vector<std::string> levels;
  for (const lab::Card* const card : lab::find_cards(arguments.names)) {
    for (const lab::ProfileGate& gate : card->gates) {
      levels.push_back(gate.level);
      if (arguments.level.empty() || arguments.level == gate.level) {
        gates.emplace_back(card, &gate);
      }
    }
  }
  if (levels.empty()) {
    throw Error("these cards have no gates");
  }
  if (gates.empty()) {
    throw Error(fmt::format("these cards have no gate for level '{}'; there are gates for: {}",
                            arguments.level, fmt::join(levels, ", ")));
  }
  int missed = 0;
  int judged = 0;
  for (const auto& [card, gate] : gates) {
    const std::vector<lab::Profile> profiles =
        lab::profile(*card, gate->case_name, gate->level, arguments.device, self);
    for (const lab::GateResult& result : lab::judge_gate(*gate, profiles.front())) {
      std::cout << fmt::format("{} {} {}, {}: {}\n", result.passed ? "pass" : "MISS", card->name,
                               gate->level, gate->case_name, result.what)
                << std::flush;
      missed += result.passed ? 0 : 1;
      ++judged;
    }
  }
  std::cout << fmt::format("{}/{} gates passed\n", judged - missed, judged);
  return missed == 0 ? kDone : kFailed;
}

int run_profile(const KernelArguments& arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  if (arguments.gate) {
    return run_gates(arguments, self);
  }
  std::vector<lab::Profile> profiles;
  for (const lab::Card* const card : cards_to_run(arguments)) {
    for (lab::Profile& one :
         lab::profile(*card, arguments.check.only_case, arguments.level, arguments.device, self)) {
      if (!arguments.as_json) {
        std::cout << lab::to_text(one) << std::flush;
      }
      profiles.push_back(std::move(one));
    }
  }
  if (arguments.as_json) {
    std::cout << io::printable_json(lab::to_json(profiles)) << '\n';
  }
  return kDone;
}

/// The images that the named cards cover, or all images.
std::vector<gpu::KernelImage> images_of(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  std::vector<gpu::KernelImage> images;
  for (const gpu::KernelImage& image : gpu::kernel_images()) {
    const bool wanted = std::ranges::any_of(cards, [&](const lab::Card* card) {
      return std::ranges::any_of(card->kernels, [&](const lab::KernelLimits& limits) {
        return limits.covers(image.name);
      });
    });
    if (wanted || arguments.names.empty()) {
      images.push_back(image);
    }
  }
  if (images.empty()) {
    throw Error(gpu::kernel_images().empty()
                    ? "this program was built without the CUDA compiler, so it has no kernels"
                    : "these cards have no kernels");
  }
  return images;
}

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) {
    text += (text.empty() ? "  OVER: " : "; ") + fault;
  }
  return text;
}

int run_resources(const KernelArguments& arguments) {
  const std::vector<gpu::KernelImage> images = images_of(arguments);
  std::size_t over = 0;
  for (const lab::ImageReport& report : lab::check_resources(lab::find_cards({}), images)) {
    const gpu::KernelImage& image = *report.image;
    std::cout << fmt::format(
        "{:<56} sm_{:<4}{:>4} registers {:>7} B shared {:>5} B local {:>5} B spilt{}\n", image.name,
        image.arch, image.registers, image.shared_bytes, image.stack_bytes,
        image.spill_store_bytes + image.spill_load_bytes, joined(report.faults));
    over += report.faults.empty() ? 0 : 1;
  }
  std::cout << fmt::format("{}/{} within their limits\n", images.size() - over, images.size());
  return over == 0 ? kDone : kFailed;
}

int run_sass(const KernelArguments& arguments) {
  const std::vector<gpu::KernelImage> images = images_of(arguments);
  std::size_t wrong = 0;
  lab::check_machine_code(lab::find_cards({}), images, [&](const lab::ImageReport& report) {
    wrong += report.faults.empty() ? 0 : 1;
    std::cout << fmt::format("{:<56} sm_{:<4}{:>6} instructions{}\n", report.image->name,
                             report.image->arch, report.instructions, joined(report.faults));
    if (arguments.dump) {
      std::cout << lab::disassemble(*report.image) << '\n';
    }
    std::cout << std::flush;
  });
  std::cout << fmt::format("{}/{} have all required instructions and no forbidden ones\n",
                           images.size() - wrong, images.size());
  return wrong == 0 ? kDone : kFailed;
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
                    "Cards, as `fovea kernel list` names them (default: all)");
  };
  const auto take_device = [&](CLI::App* sub) {
    sub->add_option("--gpu", arguments->device, "Index of the GPU")->check(CLI::NonNegativeNumber);
  };

  take_names(add("list", "List the cards and their cases", run_list));
  CLI::App* check = add(
      "check", "Compare kernels with float64, and prove that the gate notices mistakes", run_check);
  take_names(check);
  take_device(check);
  check->add_option("--case", arguments->check.only_case, "Only this case");
  check->add_option("--seed", arguments->check.seed, "The seed that inputs are drawn from")
      ->capture_default_str();
  check
      ->add_option(
          "--seeds", arguments->check.seeds,
          "How many seeds to check, from --seed on. Each seed after the first checks every "
          "card, every plan and every mutant on the small cases and on one of the large "
          "ones, in turn, and compares 12 tiles of an output instead of 48")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  check->add_flag("--small", arguments->check.small,
                  "Only what is quick under compute-sanitizer, and no mutants");
  check->add_option("--json", arguments->json, "Also write what ran to this file")
      ->envname("FOVEA_JSON_FILE");

  CLI::App* bench = add("bench", "Time kernels that have passed their gate", run_bench);
  take_names(bench);
  take_device(bench);
  bench->add_option("--case", arguments->bench.only_case, "Only this case");
  bench->add_option("--seed", arguments->bench.seed, "Seed of the inputs");
  bench->add_flag("--peers,!--no-peers", arguments->bench.peers,
                  "Also time the vendor's libraries on the same problem");
  bench->add_flag("--plans", arguments->bench.plans, "Time every plan, not only the chosen one");
  bench->add_option("--json", arguments->json, "Also write the figures to this file")
      ->envname("FOVEA_JSON_FILE");  // FOVEA_JSON is a switch of other commands

  CLI::App* once = add("run", "Launch one case and nothing else, for profilers", run_once);
  take_names(once);
  take_device(once);
  once->add_option("--case", arguments->check.only_case,
                   "The case to launch (default: the timed one)");
  once->add_option("--level", arguments->level,
                   "The level to launch (default: the launcher's choice)");
  once->add_option("--times", arguments->times, "Number of launches")->check(CLI::PositiveNumber);

  CLI::App* profile = add(
      "profile", "Run ncu on exactly one case's launches and say what bounds them", run_profile);
  take_names(profile);
  take_device(profile);
  profile->add_option("--case", arguments->check.only_case,
                      "The case to launch (default: the timed one)");
  profile->add_option("--level", arguments->level,
                      "The level to launch (default: the launcher's choice)");
  profile->add_flag("--gate", arguments->gate,
                    "Compare the level, or all levels that have gates, with their gates");
  profile->add_flag("--json", arguments->as_json, "Print JSON");

  take_names(add("resources",
                 "Compare registers, shared and local memory of the compiled kernels with "
                 "the limits of their cards",
                 run_resources));
  CLI::App* sass =
      add("sass", "Compare the instructions of the compiled kernels with what their cards demand",
          run_sass);
  take_names(sass);
  sass->add_flag("--dump", arguments->dump, "Also print the machine code");
}

}  // namespace fovea::cli
