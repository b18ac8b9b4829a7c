// `fovea kernel bench` and `run`, which launch kernels to time or to watch them.
#include <algorithm>
#include <cstddef>
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
#include "cli/time_gate.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/prepared_case.hpp"
#include "lab/measure/bench_cards.hpp"
#include "lab/measure/steps.hpp"

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
      "  gate: max_abs {:.2e}, max_rel {:.2e}, error {:.2e} (framework {:.2e}), difference {:.1e}, "
      "worst tile {:.1e}\n",
      figure.verdict.worst, figure.verdict.worst_relative, figure.verdict.error,
      figure.verdict.framework_error, figure.verdict.difference, figure.verdict.tile_difference);
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
  for (const lab::SpeedResult& gate : figure.gates) {
    std::cout << fmt::format("  {} {} ({})\n", gate.passed ? "pass" : "MISS", gate.words(),
                             gate.gate.reason);
  }
  std::cout << std::flush;
}

}  // namespace

int run_kernel_bench(const KernelArguments& arguments) {
  if (arguments.gate && !arguments.bench.peers) {
    throw Error("--gate needs the peers: leave out --no-peers");
  }
  const auto cards = lab::find_cards(arguments.names);
  require_case(cards, arguments.bench.only_case);
  if (arguments.gate &&
      std::ranges::all_of(cards, [](const lab::Card* card) { return card->speed_gates.empty(); })) {
    throw Error("none of these cards has a speed gate: leave out --gate, or name others");
  }
  const std::string file = arguments.json.file();
  if (!file.empty()) {
    lab::check_json_file(file);  // now, not after minutes
  }
  const bool prints = arguments.json.leaves_text();
  const std::unique_ptr<gpu::Device> device = open_gpu(arguments);
  say(device->info().name);
  const lab::EarlierFigures earlier = earlier_figures_of(arguments.against, device->info().name);
  lab::Ceilings ceilings;
  lab::BenchReport report = lab::bench(
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
  if (!earlier.empty()) {
    report.times =
        lab::compare_times(lab::timed_figures(lab::to_json(report, ""), "this run"), earlier);
  }
  arguments.json.write(nlohmann::ordered_json::parse(lab::to_json(report, file)));
  const auto asked = std::ranges::count_if(
      report.figures, [](const lab::BenchFigure& figure) { return !figure.gates.empty(); });
  const auto missed = std::ranges::count_if(report.figures, [](const lab::BenchFigure& figure) {
    return !std::ranges::all_of(figure.gates, &lab::SpeedResult::passed);
  });
  if (arguments.gate && prints) {
    std::cout << fmt::format("{}/{} cases reach all of their speed gates\n", asked - missed, asked);
  }
  const bool gate_failed = arguments.gate && (asked == 0 || missed > 0);
  const bool is_as_fast = pass_time_gate(report.times, arguments.against, prints);
  return report.failed == 0 && !gate_failed && is_as_fast ? kDone : kFailed;
}

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
  if (arguments.steps && cards.size() != 1) {
    throw Error("--steps takes one card");
  }
  const std::unique_ptr<gpu::Device> device = open_gpu(arguments);
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards) {
    const lab::CaseSpec spec{.card = card,
                             .case_name = arguments.check.only_case,
                             .level = arguments.level,
                             .plan = arguments.plan,
                             .sources = arguments.sources,
                             .changes = arguments.parameters,
                             .seed = arguments.check.seed};
    if (arguments.steps) {
      lab::run_steps(*device, spec, std::cin, std::cout);
      return kDone;
    }
    lab::run_case(*device, spec, arguments.times);
    json.push_back({{"card", card->name},
                    {"case", lab::find_case(*card, arguments.check.only_case).name},
                    {"launches", arguments.times}});
  }
  arguments.json.write({{"launches", std::move(json)}});
  return kDone;
}

}  // namespace fovea::cli
