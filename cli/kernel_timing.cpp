// `fovea kernel bench`, `run` and `profile`, which launch kernels to time them or to watch them.
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
#include "lab/bench_cards.hpp"
#include "lab/card.hpp"
#include "lab/check_cards.hpp"
#include "lab/profile.hpp"

namespace fovea::cli {
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

}  // namespace fovea::cli
