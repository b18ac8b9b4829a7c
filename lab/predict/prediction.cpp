// Implements the model: resources, power, overhead.
#include "lab/predict/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "lab/check/prepared_case.hpp"
#include "lab/predict/instruction_counts.hpp"

namespace fovea::lab {
namespace {

constexpr double kIssueRate = 4;  // warp instructions that an SM issues per clock
constexpr double kLanes = 32;
/// Reads of 128 bytes of tensor memory per clock: each quarter of an SM reads a word in each of 32
/// lanes.
constexpr double kTensorPasses = 4;
/// Share of the published memory bandwidth that copies reach: 4.30 of 4.8 TB/s on the H200.
constexpr double kDramShare = 0.9;
/// Average clocks per instruction of a warp if every second instruction depends on the one before
/// it: the latency is 4 to 5 clocks (Luo et al., arXiv:2402.13499).
constexpr double kClocksPerInstruction = 2.5;
constexpr double kLaunchSeconds = 2.0e-6;  // seconds to launch and end a grid in a graph
constexpr double kLatencySeconds =
    1.2e-6;                          // seconds of latency of the first load and the last store
constexpr double kNormExponent = 5;  // exponent of the norm that combines the resources

double norm(double a, double b) {
  return std::pow(std::pow(a, kNormExponent) + std::pow(b, kNormExponent), 1 / kNormExponent);
}

OperationCounts total_counts(const KernelWork& work, const std::array<OperationCounts, 2>& units) {
  OperationCounts total;
  for (const auto& [name, member] : kCountMembers) {
    total.*member = units[0].*member * work.sizes[0] + units[1].*member * work.sizes[1];
  }
  (work.is_wide ? total.wide_products : total.narrow_products) +=
      total.pair_steps * work.step_products;
  total.operand_passes += total.pair_steps * work.step_passes;
  return total;
}

/// Returns the clocks that the matrix units of one SM take for the products.
double product_clocks(const OperationCounts& counts, const GpuRates& rates) {
  return counts.narrow_products / rates.narrow_products +
         counts.wide_products / rates.wide_products + counts.warp_products / rates.warp_products;
}

/// Returns the ratio of the busiest SM's work to the average.
double tail_ratio(const KernelWork& work, const GpuRates& rates) {
  if (work.pieces == 0) {
    return 1;
  }
  const double slots = rates.sms;
  return std::ceil(work.pieces / slots) * slots / work.pieces;
}

/// Returns the clocks that the busiest SM takes for each resource.
std::vector<ResourceTime> resource_clocks(const KernelWork& work, const OperationCounts& counts,
                                          const GpuRates& rates) {
  const double tail = tail_ratio(work, rates);
  const double share = tail / rates.sms;
  const int exponentials = gpu::arch_up_to(rates.arch, gpu::kArchs).exponentials;
  const double l2 = (work.l2_read_bytes + work.l2_write_bytes) / rates.l2_bytes +
                    work.dram_bytes / rates.l2_dram_bytes;
  std::vector<ResourceTime> clocks = {
      {"matrix units", product_clocks(counts, rates) * share},
      {"issue slots", counts.instructions / kIssueRate * share},
      {"exponentials", counts.special * kLanes / exponentials * share},
      {"shared memory", (counts.shared_passes + counts.operand_passes) * share},
      {"loads and stores", counts.global_passes * share},
      {"tensor memory", counts.tensor_passes / kTensorPasses * share},
      {"L2", l2 / rates.sms},
  };
  if (work.chains > 0) {
    const double instructions = counts.of_workers / (work.chains * work.chain_warps);
    const double chain = instructions * kClocksPerInstruction +
                         (work.chain_multiplies ? product_clocks(counts, rates) / work.chains : 0);
    const double rounds = std::ceil(work.chains * share - 1e-9) / work.in_flight;
    clocks.push_back({"latency of warps", chain * std::max(1.0, rounds)});
  }
  return clocks;
}

/// Returns the energy in joules at the maximal clock, without device memory.
double kernel_energy(const KernelWork& work, const OperationCounts& counts, const GpuRates& rates) {
  return counts.narrow_products *
             (work.is_integer ? rates.of_int8_product : rates.of_e4m3_product) +
         (counts.wide_products + counts.warp_products) * rates.of_wide_product +
         counts.instructions * rates.of_instruction +
         (counts.shared_passes + counts.operand_passes) * rates.of_shared_pass;
}

const CountedCase* find_counted_case(std::string_view card, std::string_view case_name, int arch) {
  const std::span<const CountedCase> table = counted_cases(arch);
  const auto match = std::ranges::find_if(table, [&](const CountedCase& row) {
    return row.card == card && row.case_name == case_name;
  });
  return match == table.end() ? nullptr : &*match;
}

}  // namespace

std::string_view Prediction::bound() const {
  return resources.front().name;
}

Prediction predict(const KernelWork& work, const std::array<OperationCounts, 2>& units,
                   const GpuRates& rates) {
  const OperationCounts counts = total_counts(work, units);
  Prediction prediction;
  prediction.gpu = rates.name;
  prediction.resources = resource_clocks(work, counts, rates);
  double clocks = 0;
  for (const ResourceTime& resource : prediction.resources) {
    clocks = norm(clocks, resource.seconds);
  }
  const double dram = work.dram_bytes / (rates.dram_bytes * kDramShare);
  const double energy = kernel_energy(work, counts, rates);
  const auto seconds = [&](double clock) { return norm(clocks / clock, dram); };
  const auto watts = [&](double clock) {
    return rates.idle_watts +
           (energy * clock / rates.max_clock + work.dram_bytes * rates.of_dram_byte) /
               seconds(clock);
  };
  const auto clock_within = [&](double limit) {
    double clock = rates.max_clock;
    double lowest = watts(clock) > limit ? clock / 4 : clock;
    while (clock - lowest > 1e6) {
      const double middle = (lowest + clock) / 2;
      (watts(middle) > limit ? clock : lowest) = middle;
    }
    return lowest;
  };
  prediction.clock = clock_within(rates.short_watts);
  prediction.sustained_clock = clock_within(rates.max_watts);
  prediction.overhead = kLaunchSeconds + kLatencySeconds;
  prediction.seconds = seconds(prediction.clock) + prediction.overhead;
  prediction.sustained = seconds(prediction.sustained_clock) + prediction.overhead;
  for (ResourceTime& resource : prediction.resources) {
    resource.seconds /= prediction.clock;
  }
  prediction.resources.push_back({"device memory", dram});
  std::ranges::sort(prediction.resources, std::ranges::greater{}, &ResourceTime::seconds);
  return prediction;
}

std::string launched_kernel(const Card& card, const Workload& workload, const GpuRates& rates) {
  if (has_plans(workload)) {
    return std::string(gpu::info_of(workload.kernel_of(gpu_device_info(rates), {})).name);
  }
  // A smaller problem suffices: the launcher's choice does not depend on the number of rows.
  const std::unique_ptr<gpu::Device> device = gpu::open_emulated_device({.arch = rates.arch});
  const PreparedCase prepared(
      *device,
      {.card = &card, .case_name = compute_work(workload, "", rates.sms).counted[0].fields});
  if (prepared.kernels().size() != 1) {
    fail("{} launches {} kernels, but the model covers only one", workload.describe(),
         prepared.kernels().size());
  }
  return prepared.kernels().front();
}

Prediction predict(const Card& card, const std::string& case_name, const GpuRates& rates,
                   const std::string& kernel) {
  const Case card_case = find_case(card, case_name);
  const std::unique_ptr<Workload> workload = card_case.make(1);
  const CountedCase* const counted_case = find_counted_case(card.name, card_case.name, rates.arch);
  const bool is_known =
      counted_case != nullptr && (kernel.empty() || counted_case->kernel == kernel);
  const std::string name = is_known         ? std::string(counted_case->kernel)
                           : kernel.empty() ? launched_kernel(card, *workload, rates)
                                            : kernel;
  const KernelWork work = compute_work(*workload, name, rates.sms);
  Prediction prediction = predict(
      work, is_known ? counted_case->counts : count_units(card, work, name, rates.arch), rates);
  prediction.card = card.name;
  prediction.case_name = card_case.name;
  prediction.description = workload->describe();
  prediction.kernel = name;
  prediction.is_counted_now = !is_known;
  return prediction;
}

std::string to_json(const Prediction& prediction) {
  nlohmann::ordered_json resources;
  for (const ResourceTime& resource : prediction.resources) {
    resources[std::string(resource.name)] = resource.seconds;
  }
  return nlohmann::ordered_json{{"card", prediction.card},
                                {"case", prediction.case_name},
                                {"problem", prediction.description},
                                {"kernel", prediction.kernel},
                                {"gpu", prediction.gpu},
                                {"seconds", prediction.seconds},
                                {"bound", prediction.bound()},
                                {"clock_hz", prediction.clock},
                                {"sustained_seconds", prediction.sustained},
                                {"sustained_clock_hz", prediction.sustained_clock},
                                {"overhead_seconds", prediction.overhead},
                                {"resources", std::move(resources)},
                                {"counted_now", prediction.is_counted_now}}
      .dump();
}

}  // namespace fovea::lab
