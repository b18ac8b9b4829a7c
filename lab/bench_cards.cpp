// bench: checks each kernel, then times it and its peers in turns over rotated inputs.
#include "lab/bench_cards.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "lab/ceilings.hpp"
#include "lab/check_cards.hpp"
#include "lab/placement.hpp"

namespace fovea::lab {
namespace {

constexpr std::size_t kTiles = 24;      // compared before timing
constexpr std::size_t kMostSets = 256;  // of inputs that are rotated over: a sample has more runs
constexpr double kPeerSlack = 10.0;     // peers may round more often than we do

class Bench {
 public:
  Bench(gpu::Device& device, const Nvml& nvml, const BenchOptions& options, BenchReport& report)
      : device_(device),
        nvml_(nvml),
        kernels_(device),
        stream_(device.make_stream()),
        options_(options),
        report_(report) {}

  /// The figure of one case under one plan; its verdict says when it was not timed.
  BenchFigure run(const Card& card, const Case& one, const Workload& workload, const Plan& plan,
                  bool with_peers) {
    BenchFigure figure;
    figure.card = card.name;
    figure.case_name = one.name;
    figure.plan = lab::to_string(plan);
    figure.description = workload.describe();
    figure.flops = workload.flops();
    figure.bytes = static_cast<double>(workload.bytes());
    figure.matrix_ceiling = size_of(workload.operand_type()) == 1 ? report_.ceilings.e4m3_flops
                                                                  : report_.ceilings.bf16_flops;
    // Inputs of at least twice the L2 cache, so that none is found there from the last time.
    const std::size_t bytes = workload.bytes();
    const std::size_t sets =
        std::clamp(2 * device_.info().l2_bytes / std::max<std::size_t>(bytes, 1) + 1,
                   std::size_t{1}, kMostSets);
    if (sets * bytes < 2 * device_.info().l2_bytes) {
      report_.missing.push_back(fmt::format(
          "{} {} from device memory: its {} sets of {} KiB stay in the L2 cache, and the times "
          "told are of that",
          card.name, one.name, sets, bytes >> 10));
    }
    std::vector<std::unique_ptr<Placement>> placements;
    placements.reserve(sets);
    for (std::size_t set = 0; set < sets; ++set) {
      placements.push_back(std::make_unique<Placement>(device_, workload, *stream_));
    }
    Placement& first = *placements.front();
    const OutputSpec output = workload.output();
    std::vector<TileValues> values =
        expectations(workload, sample_tiles(output.rows, output.columns, kTiles, options_.seed));
    figure.verdict =
        run_and_judge(kernels_, workload, first, plan, values, card.tolerance, *stream_);
    if (!figure.verdict.passes()) {
      return figure;
    }
    figure.smoke = smoke(workload, plan);

    std::vector<Contender> contenders;
    const auto contender = [&](std::string name, const auto& enqueue) {
      return Contender{std::move(name), static_cast<int>(sets),
                       [&placements, enqueue](int set, gpu::Stream& stream) {
                         enqueue(placements[static_cast<std::size_t>(set)]->operands(), stream);
                       }};
    };
    contenders.push_back(contender("fovea", [&](const Operands& operands, gpu::Stream& stream) {
      lab::run(kernels_, workload, operands, plan, stream);
    }));
    std::vector<Peer> peers;
    if (with_peers) {
      peers = workload.peers(kernels_, report_.missing);
    }
    for (const Peer& peer : peers) {
      // A peer that refuses takes no other figure with it.
      PeerFigure compared;
      compared.same_result = peer.same_result;
      Contender timed = contender(peer.name, peer.run);
      Support support;
      try {
        compared.wrong = fault_of(peer, card, first, values);
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
  std::optional<SmokeFigure> smoke(const Workload& workload, const Plan& plan) {
    const Smoke asked = workload.smoke();
    if (asked.workload == nullptr) {
      return std::nullopt;
    }
    Placement placement(device_, *asked.workload, *stream_);
    lab::run(kernels_, *asked.workload, placement.operands(), plan, *stream_);
    const std::int64_t columns = asked.workload->output().columns;
    TileValues values;
    values.tile = {0, 0, (asked.count + columns - 1) / columns, columns};
    placement.read(std::span(&values, 1), *stream_);
    SmokeFigure figure{.expected = asked.expected_sum, .count = asked.count};
    for (std::int64_t i = 0; i < asked.count; ++i) {
      figure.sum += values.actual[static_cast<std::size_t>(i)];
    }
    return figure;
  }

  std::string fault_of(const Peer& peer, const Card& card, Placement& placement,
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
    for (const Case& one : card->cases) {
      if (options.only_case.empty() ? !one.bench : one.name != options.only_case) {
        continue;
      }
      any = true;
      const std::unique_ptr<Workload> workload = one.make(options.seed);
      if (const Support support = workload->can_run(device.info()); !support) {
        all.missing.push_back(fmt::format("{} {}: {}", card->name, one.name, support.why));
        continue;
      }
      std::vector<Plan> plans = workload->plans(device.info());
      plans.resize(options.plans ? plans.size() : 1);
      for (std::size_t i = 0; i < plans.size(); ++i) {
        BenchFigure figure =
            one_by_one.run(*card, one, *workload, plans[i], options.peers && i == 0);
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
    fail("no case to time{}", options.only_case.empty() ? "" : ": " + options.only_case);
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
