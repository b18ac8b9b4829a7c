// `fovea kernel bench`: times kernels that have passed their gate.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "cli/time_gate.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"
#include "lab/measure/bench_cards.hpp"

namespace fovea::cli::kernel {
namespace {

struct BenchOptions : CardOptions {
  int gpu = 0;
  lab::BenchOptions bench;
  bool gate = false;
  std::string against;  // earlier results to compare with; empty: the committed ones
};

std::string share_text(double value, double whole) {
  return whole > 0 ? fmt::format("{:.1f}%", 100 * value / whole) : std::string("-");
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
      figure.flops / seconds * 1e-12, share_text(figure.flops / seconds, figure.matrix_ceiling),
      figure.bytes / seconds * 1e-9,
      share_text(figure.bytes / seconds, ceilings.copy_bytes_per_second), figure.timing.sm_mhz,
      figure.timing.watts,
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
                             peer.same_result ? "" : ", without part of the work",
                             peer.wrong.empty() ? "" : ", WRONG: " + io::printable(peer.wrong));
  }
  for (const lab::SpeedResult& gate : figure.gates) {
    std::cout << fmt::format("  {} {} ({})\n", gate.passed ? "pass" : "MISS", gate.words(),
                             gate.gate.reason);
  }
  std::cout << std::flush;
}

int run_bench(const BenchOptions& options) {
  if (options.gate && !options.bench.peers) {
    throw Error("--gate needs the peers; do not give --no-peers");
  }
  const auto cards = cards_with_case(options.cards, options.bench.only_case);
  if (options.gate &&
      std::ranges::all_of(cards, [](const lab::Card* card) { return card->speed_gates.empty(); })) {
    throw Error("none of these cards has a speed gate; omit --gate, or name other cards");
  }
  const std::string file = options.json.file();
  if (!file.empty()) {
    lab::check_json_file(file);  // fails before minutes of measurements
  }
  const bool prints = options.json.prints_text();
  const std::unique_ptr<gpu::Device> device = open_gpu(options.gpu);
  say(device->info().name);
  const lab::EarlierFigures earlier_figures =
      load_earlier_figures(options.against, device->info().name);
  lab::Ceilings ceilings;
  lab::BenchReport report = lab::bench(
      *device, cards, options.bench,
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
  if (!earlier_figures.empty()) {
    report.times = lab::compare_times(lab::timed_figures(lab::to_json(report, ""), "this run"),
                                      earlier_figures);
  }
  options.json.write(nlohmann::ordered_json::parse(lab::to_json(report, file)));
  const auto gated_cases = std::ranges::count_if(
      report.figures, [](const lab::BenchFigure& figure) { return !figure.gates.empty(); });
  const auto missed_cases =
      std::ranges::count_if(report.figures, [](const lab::BenchFigure& figure) {
        return !std::ranges::all_of(figure.gates, &lab::SpeedResult::passed);
      });
  if (options.gate && prints) {
    std::cout << fmt::format("{}/{} cases reach all of their speed gates\n",
                             gated_cases - missed_cases, gated_cases);
  }
  const bool gate_failed = options.gate && (gated_cases == 0 || missed_cases > 0);
  const bool passed_time_gate = pass_time_gate(report.times, options.against, prints);
  return report.failed == 0 && !gate_failed && passed_time_gate ? kDone : kFailed;
}

}  // namespace

void add_bench(CLI::App& kernel, Run& run) {
  const auto [command, options] =
      add_card_command(kernel, run, "bench", "Time kernels that have passed their gate", run_bench);
  add_gpu(command, options.gpu);
  add_case(command, options.bench.only_case);
  add_seed(command, options.bench.seed);
  add_flag(command, "--peers,!--no-peers", options.bench.peers,
           "Also time the vendor's libraries on the same problem");
  add_flag(command, "--plans", options.bench.plans, "Time every plan, not only the chosen one");
  add_flag(command, "--gate", options.gate,
           "Exit with 1 when a card is slower, relative to a peer, than its speed gate allows");
  add_against(command, options.against);
  declare_output(command, command.get_option("--json"), OutputKind::kBenchReport);
  explain(command, {"--json=FILE keeps other measurements that FILE already contains."},
          {"fovea kernel bench gemm_qkv_bf16 --no-peers"});
}

}  // namespace fovea::cli::kernel
