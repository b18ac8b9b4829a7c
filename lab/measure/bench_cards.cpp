// Implements `bench`: checks each kernel, then times it and its peers alternately on rotating
// inputs.
#include "lab/measure/bench_cards.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "lab/check/placement.hpp"
#include "lab/measure/rotation.hpp"

namespace fovea::lab {
namespace {

// Tolerance factor for peers, which may round intermediate results.
constexpr double kPeerSlack = 10.0;

class Bench {
 public:
  Bench(gpu::Device& device, const Nvml& nvml, const BenchOptions& options, BenchReport& report)
      : device_(device),
        nvml_(nvml),
        kernels_(device),
        stream_(device.make_stream()),
        options_(options),
        report_(report) {}

  /// Measures a case with a plan. If the output is wrong, the case is not timed, and the verdict
  /// says why.
  BenchFigure run(const Card& card, const Case& card_case, const Workload& workload,
                  const Plan& plan, bool with_peers) {
    BenchFigure figure;
    figure.card = card.name;
    figure.case_name = card_case.name;
    figure.plan = lab::to_string(plan);
    figure.description = workload.describe();
    figure.flops = workload.flops();
    figure.bytes = static_cast<double>(workload.bytes());
    figure.matrix_ceiling = size_of(workload.operand_type()) == 1 ? report_.ceilings.e4m3_flops
                                                                  : report_.ceilings.bf16_flops;
    const Rotation rotation(device_, workload, *stream_);
    if (!rotation.misses_cache()) {
      report_.missing.push_back(fmt::format(
          "{} {} from device memory: the {} sets of inputs with {} KiB each remain in the L2 "
          "cache, which the times reflect",
          card.name, card_case.name, rotation.sets(), workload.bytes() >> 10));
    }
    Placement& first = rotation.first();
    std::vector<TileValues> values = expectations(workload, kTilesBeforeTiming, options_.seed);
    figure.verdict =
        run_and_judge(kernels_, workload, first, plan, values, card.tolerance, *stream_);
    figure.smoke = run_smoke(kernels_, workload, plan, *stream_);
    if (figure.verdict.passes() && figure.smoke.has_value()) {
      figure.verdict.reason = figure.smoke->fault();
    }
    if (!figure.verdict.passes()) {
      return figure;
    }

    std::vector<Contender> contenders;
    contenders.push_back(
        rotation.contender("fovea", [&](const Operands& operands, gpu::Stream& stream) {
          lab::run(kernels_, workload, operands, plan, stream);
        }));
    std::vector<Peer> peers;
    if (with_peers) {
      peers = workload.peers(kernels_, report_.missing);
    }
    for (const Peer& peer : peers) {
      // An exception from a peer must not affect other figures.
      PeerFigure compared;
      compared.same_result = peer.same_result;
      Contender timed = rotation.contender(peer.name, peer.run);
      Support support;
      try {
        compared.wrong = peer_fault(peer, card, first, values);
        support = runs_in_graph(device_, timed);
      } catch (const Error& error) {
        support.why = error.what();
      }
      if (!support) {
        report_.missing.push_back(fmt::format("{}, {}: {}", card.name, peer.name, support.why));
        continue;
      }
      figure.peers.push_back(std::move(compared));
      contenders.push_back(std::move(timed));
    }
    const std::vector<Timing> timings = time_in_turns(device_, nvml_, contenders);
    figure.timing = timings.front();
    for (std::size_t i = 0; i < figure.peers.size(); ++i) {
      PeerFigure& compared = figure.peers[i];
      compared.timing = timings[i + 1];
      compared.ratio = compared.timing.seconds / figure.timing.seconds;
      compared.sustained_ratio = compared.timing.sustained / figure.timing.sustained;
      compared.ambiguous = figure.timing.ambiguous_with(compared.timing);
    }
    return figure;
  }

 private:
  std::string peer_fault(const Peer& peer, const Card& card, Placement& placement,
                         std::vector<TileValues>& values) {
    if (peer.prepare) {
      peer.prepare(placement.operands(), *stream_);
    }
    placement.reset(*stream_);
    peer.run(placement.operands(), *stream_);
    placement.read(values, *stream_);
    if (!peer.same_result) {
      return {};
    }
    Tolerance tolerance = card.tolerance;
    tolerance.framework_factor *= kPeerSlack;
    tolerance.difference *= kPeerSlack;
    tolerance.tile_difference *= kPeerSlack;
    return judge(values, tolerance).reason;
  }

  gpu::Device& device_;
  const Nvml& nvml_;
  gpu::KernelCache kernels_;
  std::unique_ptr<gpu::Stream> stream_;
  const BenchOptions& options_;
  BenchReport& report_;
};

}  // namespace

std::string SpeedResult::words() const {
  return ratio == 0 ? fmt::format("{} was not measured, at least {:.2f}x required", gate.peer,
                                  gate.min_ratio)
                    : fmt::format("{:.2f}x of {}, at least {:.2f}x required", ratio, gate.peer,
                                  gate.min_ratio);
}

std::vector<SpeedResult> judge_speed(const Card& card, const BenchFigure& figure) {
  std::vector<SpeedResult> results;
  for (const SpeedGate& gate : card.speed_gates) {
    const auto peer = std::ranges::find_if(figure.peers, [&](const PeerFigure& peer_figure) {
      return peer_figure.timing.name.starts_with(gate.peer);
    });
    SpeedResult result{.gate = gate};
    if (peer != figure.peers.end()) {
      result.ratio = peer->ratio;
      // A ratio near 1.0 is ambiguous if the spreads overlap, but other limits can still be judged.
      const bool as_fast = peer->ambiguous && gate.min_ratio == 1.0;
      result.passed = peer->wrong.empty() && (peer->ratio >= gate.min_ratio || as_fast);
    }
    results.push_back(std::move(result));
  }
  return results;
}

BenchReport bench(gpu::Device& device, std::span<const Card* const> cards,
                  const BenchOptions& options, const std::function<void(const Ceilings&)>& measured,
                  const std::function<void(const BenchFigure&)>& report,
                  const std::function<void(const BenchFigure&)>& failed) {
  BenchReport all;
  all.device = device.info();
  const Nvml nvml(all.device.pci_bus_id);
  all.driver_version = nvml.driver_version();
  if (!nvml.missing().empty()) {
    all.missing.push_back(nvml.missing());
  }
  all.ceilings = measure_ceilings(device, nvml, all.cublaslt_version, all.missing);
  measured(all.ceilings);
  Bench one_by_one(device, nvml, options, all);
  bool any = false;
  for (const Card* const card : cards) {
    for (const Case& card_case : select_cases(*card, options.only_case)) {
      if (options.only_case.empty() && !card_case.bench) {
        continue;
      }
      any = true;
      const std::unique_ptr<Workload> workload = card_case.make(options.seed);
      if (const Support support = workload->can_run(device.info()); !support) {
        all.missing.push_back(fmt::format("{} {}: {}", card->name, card_case.name, support.why));
        continue;
      }
      std::vector<Plan> plans = workload->plans(device.info());
      plans.resize(options.plans ? plans.size() : 1);
      for (std::size_t i = 0; i < plans.size(); ++i) {
        BenchFigure figure =
            one_by_one.run(*card, card_case, *workload, plans[i], options.peers && i == 0);
        if (options.peers && i == 0) {
          figure.gates = judge_speed(*card, figure);
        }
        if (figure.verdict.passes()) {
          report(figure);
          all.figures.push_back(std::move(figure));
        } else {
          ++all.failed;
          failed(figure);
        }
      }
    }
  }
  if (!any) {
    fail("no case can be timed{}", options.only_case.empty() ? "" : ": " + options.only_case);
  }
  if (all.figures.empty() && all.failed == 0) {
    fail("nothing could be timed: {}", fmt::join(all.missing, "; "));
  }
  std::ranges::sort(all.missing);
  const auto [first, last] = std::ranges::unique(all.missing);
  all.missing.erase(first, last);
  return all;
}

}  // namespace fovea::lab
