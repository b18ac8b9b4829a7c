// What the commands of `fovea kernel` do.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
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
#include "lab/bench_cards.hpp"
#include "lab/card.hpp"
#include "lab/check_cards.hpp"
#include "lab/machine_code.hpp"
#include "lab/profile.hpp"
#include "lab/resources.hpp"

namespace fovea::cli {
namespace {

nlohmann::ordered_json to_json(const lab::Case& one) {
  return {{"name", one.name}, {"check", one.check}, {"mutants", one.mutants}, {"bench", one.bench}};
}

/// The GPU of --gpu. The device's own message advises an option that these commands do not have.
std::unique_ptr<gpu::Device> open_gpu(const KernelArguments& arguments) {
  try {
    return gpu::open_cuda_device(arguments.device);
  } catch (const gpu::NoGpu& error) {
    const std::string reason = error.what();
    throw Error(reason.substr(0, reason.find(';')) +
                "; this command needs an NVIDIA GPU (list, resources and sass do without)");
  }
}

/// Throws fovea::Error unless one of the cards has the case, before a GPU is opened.
void require_case(const std::vector<const lab::Card*>& cards, const std::string& name) {
  std::vector<std::string> known;
  for (const lab::Card* const card : cards) {
    std::ranges::transform(card->cases, std::back_inserter(known), &lab::Case::name);
  }
  if (!name.empty() && std::ranges::find(known, name) == known.end()) {
    const std::string hint = io::did_you_mean(name, known);
    throw Error(fmt::format("no case '{}'{}", name,
                            hint.empty() ? "; `fovea kernel list -v` names them" : hint));
  }
}

}  // namespace

int run_list(const KernelArguments& arguments) {
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : lab::find_cards(arguments.names)) {
    json.push_back({{"name", card->name},
                    {"arch", card->arch},
                    {"operation", card->operation},
                    {"cases", nlohmann::ordered_json::array()}});
    for (const lab::Case& one : card->cases) {
      json.back()["cases"].push_back(to_json(one));
    }
    if (!arguments.json.leaves_text()) {
      continue;
    }
    std::cout << fmt::format("{:<24} sm_{:<4} {}\n", card->name, card->arch, card->operation);
    for (const lab::Case& one : card->cases) {
      if (arguments.verbose) {
        std::cout << fmt::format("    {:<28}{}{}{}\n", one.name, one.check ? " check" : "",
                                 one.mutants ? " mutants" : "", one.bench ? " bench" : "");
      }
    }
  }
  arguments.json.write(json);
  return kDone;
}

namespace {

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

}  // namespace

int run_check(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  require_case(cards, arguments.check.only_case);
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
  arguments.json.write(nlohmann::ordered_json::parse(lab::to_json(device->info(), results)));
  return failed == 0 ? kDone : kFailed;
}

namespace {

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

}  // namespace

int run_kernel_bench(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  require_case(cards, arguments.bench.only_case);
  const std::string file = arguments.json.file();
  if (!file.empty()) {
    lab::check_json_file(file);  // now, not after minutes
  }
  const bool prints = arguments.json.leaves_text();
  const std::unique_ptr<gpu::Device> device = open_gpu(arguments);
  say(device->info().name);
  lab::Ceilings ceilings;
  const lab::BenchReport report = lab::bench(
      *device, cards, arguments.bench,
      [&](const lab::Ceilings& measured) {
        ceilings = measured;
        if (!prints) {
          return;
        }
        std::cout << fmt::format(
                         "ceilings: copy {:.0f} GB/s, bf16 {:.0f} TFLOP/s, e4m3 {:.0f} TFLOP/s\n",
                         ceilings.copy_bytes_per_second * 1e-9, ceilings.bf16_flops * 1e-12,
                         ceilings.e4m3_flops * 1e-12)
                  << std::flush;
      },
      [&](const lab::BenchFigure& figure) {
        if (prints) {
          print_figure(figure, ceilings);
        }
      },
      [](const lab::BenchFigure& figure) {
        say(fmt::format("{} {}: not timed, because its output is wrong: {}", figure.card,
                        figure.case_name, figure.verdict.reason));
      });
  for (const std::string& missing : report.missing) {
    say("not measured: " + missing);
  }
  if (!file.empty()) {
    lab::write_json(report, file);
  } else {
    arguments.json.write(nlohmann::ordered_json::parse(lab::to_json(report)));
  }
  return report.failed == 0 ? kDone : kFailed;
}

namespace {

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

}  // namespace

int run_once(const KernelArguments& arguments) {
  const std::vector<const lab::Card*> cards = cards_to_run(arguments);
  const std::unique_ptr<gpu::Device> device = open_gpu(arguments);
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards) {
    json.push_back({{"card", card->name},
                    {"case", lab::find_case(*card, arguments.check.only_case).name},
                    {"launches", arguments.times}});
    lab::run_case(*device, *card, arguments.check.only_case, arguments.level, arguments.check.seed,
                  arguments.times);
  }
  arguments.json.write(json);
  return kDone;
}

namespace {

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
  static_cast<void>(open_gpu(arguments));
  auto json = nlohmann::ordered_json::array();
  std::size_t missed = 0;
  for (const auto& [card, gate] : gates) {
    const std::vector<lab::Profile> profiles =
        lab::profile(*card, gate->case_name, gate->level, arguments.device, self);
    for (const lab::GateResult& result : lab::judge_gate(*gate, profiles.front())) {
      if (arguments.json.leaves_text()) {
        std::cout << fmt::format("{} {} {}, {}: {}\n", result.passed ? "pass" : "MISS", card->name,
                                 gate->level, gate->case_name, result.what)
                  << std::flush;
      }
      missed += result.passed ? 0 : 1;
      json.push_back({{"card", card->name},
                      {"level", gate->level},
                      {"case", gate->case_name},
                      {"passed", result.passed},
                      {"what", result.what}});
    }
  }
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{}/{} gates passed\n", json.size() - missed, json.size());
  }
  arguments.json.write(json);
  return missed == 0 ? kDone : kFailed;
}

}  // namespace

int run_profile(const KernelArguments& arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  if (arguments.gate) {
    return run_gates(arguments, self);
  }
  const std::vector<const lab::Card*> cards = cards_to_run(arguments);
  static_cast<void>(open_gpu(arguments));
  std::vector<lab::Profile> profiles;
  for (const lab::Card* const card : cards) {
    for (lab::Profile& one :
         lab::profile(*card, arguments.check.only_case, arguments.level, arguments.device, self)) {
      if (arguments.json.leaves_text()) {
        std::cout << lab::to_text(one) << std::flush;
      }
      profiles.push_back(std::move(one));
    }
  }
  arguments.json.write(nlohmann::ordered_json::parse(lab::to_json(profiles)));
  return kDone;
}

namespace {

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

/// Faults go to a line of their own.
std::string joined(const std::vector<std::string>& faults) {
  return faults.empty() ? "" : fmt::format("    OVER: {}\n", fmt::join(faults, "; "));
}

nlohmann::ordered_json to_json(const lab::ImageReport& report) {
  const gpu::KernelImage& image = *report.image;
  return {{"kernel", image.name},
          {"arch", image.arch},
          {"registers", image.registers},
          {"shared_bytes", image.shared_bytes},
          {"stack_bytes", image.stack_bytes},
          {"spill_bytes", image.spill_store_bytes + image.spill_load_bytes},
          {"instructions", report.instructions},
          {"faults", report.faults}};
}

}  // namespace

int run_resources(const KernelArguments& arguments) {
  const std::vector<gpu::KernelImage> images = images_of(arguments);
  std::size_t over = 0;
  auto json = nlohmann::ordered_json::array();
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{:<46} {:<6} {:>5} {:>7} {:>5} {:>5}\n", "kernel", "arch", "regs",
                             "shared", "local", "spilt");
  }
  for (const lab::ImageReport& report : lab::check_resources(lab::find_cards({}), images)) {
    const gpu::KernelImage& image = *report.image;
    over += report.faults.empty() ? 0 : 1;
    json.push_back(to_json(report));
    if (arguments.json.leaves_text()) {
      std::cout << fmt::format("{:<46} sm_{:<3} {:>5} {:>7} {:>5} {:>5}\n{}", image.name,
                               image.arch, image.registers, image.shared_bytes, image.stack_bytes,
                               image.spill_store_bytes + image.spill_load_bytes,
                               joined(report.faults));
    }
  }
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{}/{} within their limits\n", images.size() - over, images.size());
  }
  arguments.json.write(json);
  return over == 0 ? kDone : kFailed;
}

int run_sass(const KernelArguments& arguments) {
  const std::vector<gpu::KernelImage> images = images_of(arguments);
  std::size_t wrong = 0;
  auto json = nlohmann::ordered_json::array();
  lab::check_machine_code(lab::find_cards({}), images, [&](const lab::ImageReport& report) {
    wrong += report.faults.empty() ? 0 : 1;
    json.push_back(to_json(report));
    if (arguments.dump) {
      json.back()["machine_code"] = lab::disassemble(*report.image);
    }
    if (!arguments.json.leaves_text()) {
      return;
    }
    std::cout << fmt::format("{:<46} sm_{:<3} {:>8} instructions\n{}", report.image->name,
                             report.image->arch, report.instructions, joined(report.faults));
    if (arguments.dump) {
      std::cout << json.back()["machine_code"].get_ref<const std::string&>() << '\n';
    }
    std::cout << std::flush;
  });
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{}/{} have all required instructions and no forbidden ones\n",
                             images.size() - wrong, images.size());
  }
  arguments.json.write(json);
  return wrong == 0 ? kDone : kFailed;
}

}  // namespace fovea::cli
