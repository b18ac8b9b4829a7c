// Attention on a GPU: the kernels that can run a problem, and the choice among them.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/ranges.h>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/attention.hpp"
#include "kernels/attention/attention_params.hpp"

namespace fovea::gpu {
namespace {

using attention::kTileRows;
using attention::MmaTuning;
using attention::OnlineTuning;
using ops::AttentionProblem;

constexpr std::array<std::string_view, 4> kLevelNames = {"scalar", "wmma", "mma", "wgmma"};

/// Whether the scalar and wmma levels, which run only on request, are built for the device.
bool has_reference_levels(const DeviceInfo& device) {
  return is_built_for(kScalarVariants.front().bf16, device.arch());
}

/// Returns the first kernel of the smallest sufficient head width, among those for which
/// `predicate` is true; null when there is none.
template <typename Variants, typename Wanted>
const auto* smallest_fitting_variant(const Variants& variants, const AttentionProblem& problem,
                                     Wanted predicate) {
  const typename Variants::value_type* best = nullptr;
  for (const auto& variant : variants) {
    const int columns = variant.tuning.head_dim;
    if (predicate(variant.tuning) && columns >= problem.head_dim &&
        (best == nullptr || columns < best->tuning.head_dim)) {
      best = &variant;
    }
  }
  return best;
}

constexpr auto kAnyTuning = [](const auto& /*tuning*/) { return true; };

/// Returns the kernels of the smallest sufficient head width, in the order of their table.
template <typename Variants>
auto smallest_fitting_variants(const Variants& variants, const AttentionProblem& problem) {
  const auto* const first = smallest_fitting_variant(variants, problem, kAnyTuning);
  std::vector<const typename Variants::value_type*> all;
  for (const auto& variant : variants) {
    if (first != nullptr && variant.tuning.head_dim == first->tuning.head_dim) {
      all.push_back(&variant);
    }
  }
  return all;
}

std::int64_t mma_tiles(const MmaTuning& kernel, const AttentionProblem& problem) {
  return problem.batch * problem.heads * divide_up(problem.queries, mma_rows(kernel));
}

/// Returns the time of a kernel that occupies all SMs, in units comparable between kernels of one
/// width: the product of padded queries and keys.
std::int64_t mma_time(const MmaTuning& kernel, const AttentionProblem& problem) {
  const std::int64_t rows = divide_up(problem.queries, kernel.warp_rows) * kernel.warp_rows;
  const std::int64_t rest = problem.keys % kernel.kv_tile;
  const std::int64_t few = mma_few_keys(kernel);
  const std::int64_t last = rest == 0 ? 0 : rest <= few ? few : kernel.kv_tile;
  return rows * (problem.keys - rest + last) * kernel.cost;
}

using MmaVariants = std::vector<const AttentionVariant<MmaTuning>*>;

/// Returns the mma kernels for the problem's head width, best first: the fastest of those that
/// occupy (nearly) all SMs, or else the kernel with the fewest queries per block.
MmaVariants mma_plans(const AttentionProblem& problem, const DeviceInfo& device) {
  MmaVariants plans = smallest_fitting_variants(kMmaVariants, problem);
  std::erase_if(plans, [&](const auto* kernel) {
    return !is_built_for(kernel->bf16, device.arch()) ||
           mma_shared_bytes(kernel->tuning) > device.shared_bytes_per_block;
  });
  constexpr std::int64_t kMaxTime = std::numeric_limits<std::int64_t>::max();
  const auto time = [&](const auto* plan) {
    const MmaTuning& kernel = plan->tuning;
    const std::int64_t tiles = mma_tiles(kernel, problem);
    // A kernel may leave a tenth of the SMs idle. Splitting the keys among warps pays only if each
    // SM has at most one block.
    const bool fills = tiles * 10 >= std::int64_t{device.sm_count} * 9;
    return fills && (kernel.key_groups == 1 || tiles <= device.sm_count) ? mma_time(kernel, problem)
                                                                         : kMaxTime;
  };
  auto best = std::ranges::min_element(plans, {}, time);
  if (time(*best) == kMaxTime) {
    best = plans.end() - 1;
  }
  std::rotate(plans.begin(), best, best + 1);
  return plans;
}

/// Whether the warps of a block split the keys and each block has its own SM: for so few queries
/// this is faster than wgmma.
bool splits_keys(const MmaTuning& kernel, const AttentionProblem& problem,
                 const DeviceInfo& device) {
  return kernel.key_groups > 1 && mma_tiles(kernel, problem) <= device.sm_count;
}

/// Returns the time of a kernel, in units comparable between kernels of one width: rounds of items,
/// one per SM at a time, times padded keys.
double online_time(const OnlineTuning& kernel, const AttentionProblem& problem,
                   const DeviceInfo& device) {
  const std::int64_t rows = std::int64_t{kernel.consumers} * kTileRows;
  const std::int64_t items = problem.batch * problem.heads * divide_up(problem.queries, rows);
  const std::int64_t keys = divide_up(problem.keys, kernel.kv_tile) * kernel.kv_tile;
  auto rounds = static_cast<double>(divide_up(items, std::int64_t{device.sm_count}));
  if (problem.causal) {
    // Items with earlier queries attend to fewer keys, and the last item to nearly all of them. The
    // order of the items alternates from round to round, which balances the work.
    const double key_fraction =
        1.0 - static_cast<double>(std::max<std::int64_t>(problem.queries - rows, 0)) /
                  (2.0 * static_cast<double>(problem.keys));
    rounds = std::max(1.0, static_cast<double>(items) * key_fraction / device.sm_count);
  }
  return rounds * static_cast<double>(keys) * kernel.cost;
}

Support runs_by_wgmma(const AttentionProblem& problem, const DeviceInfo& device) {
  if (device.arch() != 90) {
    return {fmt::format("wgmma needs compute capability 9.0, {} has {}.{}", device.name,
                        device.compute_major, device.compute_minor)};
  }
  const auto expanded = [&](const ops::AttentionStrides& strides, std::int64_t heads,
                            std::int64_t rows) {
    return (strides.row == 0 && rows > 1) || (strides.head == 0 && heads > 1) ||
           (strides.batch == 0 && problem.batch > 1 && !problem.varlen);
  };
  if (expanded(problem.q, problem.heads, problem.queries) ||
      expanded(problem.k, problem.key_heads(), problem.keys) ||
      expanded(problem.v, problem.key_heads(), problem.keys)) {
    return {"wgmma reads through tensor maps, of which none is known to take a stride of 0"};
  }
  if (problem.varlen) {
    return {"wgmma stores whole tiles and would write over the next sequence of a varlen problem"};
  }
  return {};
}

/// Returns the resources of a CTA in a design with warpgroups.
template <typename Tuning>
CtaSize tuning_cta_size(const Tuning& tuning) {
  return {attention::threads_of(tuning.consumers), attention::shared_bytes(tuning)};
}
CtaSize tuning_cta_size(const MmaTuning& tuning) {
  return {mma_threads(tuning), mma_shared_bytes(tuning)};
}
CtaSize tuning_cta_size(const attention::MmaSmallTuning& tuning) {
  return {mma_small_threads(tuning), mma_small_shared_bytes(tuning)};
}
CtaSize tuning_cta_size(const attention::ScalarTuning& tuning) {
  return {attention::kScalarThreads, scalar_shared_bytes(tuning)};
}

template <typename Tuning>
Support fits_a_cta(const Tuning& tuning, const DeviceInfo& device) {
  constexpr int kMaxThreads = 1024;
  const CtaSize cta = tuning_cta_size(tuning);
  if (cta.dynamic_shared_bytes > device.shared_bytes_per_block) {
    return {fmt::format("the kernel needs {} bytes of shared memory, but a CTA has only {}",
                        cta.dynamic_shared_bytes, device.shared_bytes_per_block)};
  }
  if (cta.threads > kMaxThreads) {
    return {fmt::format("the kernel needs {} threads, but a CTA has at most {}", cta.threads,
                        kMaxThreads)};
  }
  return {};
}

/// Whether a design with warpgroups supports the tuning.
template <typename Tuning>
Support warpgroups_support(const Tuning& tuning, int min_key_slots, const DeviceInfo& device) {
  if (tuning.consumers < 2 || tuning.consumers > 4) {
    return {
        fmt::format("{} warpgroups cannot share an SM's registers; 2 to 4 can", tuning.consumers)};
  }
  if (tuning.key_slots < min_key_slots || tuning.tile_slots <= tuning.consumers) {
    return {fmt::format("a ring buffer of {} tiles of keys and {} of queries is too small",
                        tuning.key_slots, tuning.tile_slots)};
  }
  return fits_a_cta(tuning, device);
}

template <typename Tuning>
Support tuning_can_be_made(const Tuning& tuning, const DeviceInfo& device) {
  return fits_a_cta(tuning, device);
}

Support tuning_can_be_made(const attention::SinglePassTuning& tuning, const DeviceInfo& device) {
  return warpgroups_support(tuning, 2, device);
}

Support tuning_can_be_made(const OnlineTuning& tuning, const DeviceInfo& device) {
  if (tuning.kv_tile % 16 != 0 || tuning.kv_tile > 256) {
    return {fmt::format("one wgmma makes the scores of 16, 32, ... 256 keys, not of {}",
                        tuning.kv_tile)};
  }
  return warpgroups_support(tuning, 3, device);
}

Support tuning_can_be_made(const attention::MmaSmallTuning& tuning, const DeviceInfo& device) {
  if (tuning.kv_tile % tuning.score_keys != 0) {
    return {fmt::format("a block of {} keys is not a multiple of {} keys per part", tuning.kv_tile,
                        tuning.score_keys)};
  }
  return fits_a_cta(tuning, device);
}

}  // namespace

CtaSize cta_size(const AttentionPlan& plan) {
  return std::visit([](const auto* kernel) { return tuning_cta_size(kernel->tuning); }, plan);
}

Support can_be_made(const AttentionPlan& plan, const DeviceInfo& device) {
  return std::visit([&](const auto* kernel) { return tuning_can_be_made(kernel->tuning, device); },
                    plan);
}

Support can_run(const AttentionProblem& problem, const DeviceInfo& device, AttentionLevel level) {
  if (Support support = can_run(problem, device); !support) {
    return support;
  }
  switch (level) {
    case AttentionLevel::kWgmma:
      return runs_by_wgmma(problem, device);
    case AttentionLevel::kMma:
      return {};
    case AttentionLevel::kWmma:
    case AttentionLevel::kScalar:
      break;
  }
  if (!has_reference_levels(device)) {
    return {
        fmt::format("the reference levels are built for compute capabilities 8 and 9; {} has {}.{}",
                    device.name, device.compute_major, device.compute_minor)};
  }
  return {};
}

Support can_run(const AttentionProblem& problem, const DeviceInfo& device) {
  const auto refusal = [&](std::string_view why) {
    return Support{fmt::format("{}: {}", to_string(problem), why)};
  };
  if (const Support support = valid(problem); !support) {
    return refusal(support.why);
  }
  if (problem.type != DType::kBF16 && problem.type != DType::kF16) {
    return refusal("queries, keys and values must be bf16 or f16");
  }
  if (problem.head_dim > 128 || problem.head_dim % 8 != 0) {
    return refusal("head dimensions must be multiples of 8 up to 128");
  }
  if (problem.causal && !problem.varlen && problem.queries > problem.keys) {
    return refusal("the first queries of a causal problem would have no keys");
  }
  for (const ops::AttentionStrides* const strides :
       {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (strides->batch % 8 != 0 || strides->row % 8 != 0 || strides->head % 8 != 0) {
      return refusal("strides must be multiples of 8 elements");
    }
  }
  // Kernels count heads, rows and items in 32 bits; grids have up to 65535 rows of blocks.
  constexpr std::int64_t kMaxItems = std::int64_t{1} << 31;
  constexpr std::int64_t kMaxRows = std::int64_t{65535} * kTileRows;
  if (problem.queries > kMaxRows || problem.keys > kMaxRows ||
      problem.batch * problem.heads >= kMaxItems / divide_up(problem.queries, kTileRows)) {
    return refusal("the problem is too large for one launch");
  }
  if (device.arch() < 80) {
    return {fmt::format("{} has compute capability {}.{}; attention needs 8.0 or later",
                        device.name, device.compute_major, device.compute_minor)};
  }
  return {};
}

std::string_view to_string(AttentionLevel level) {
  return kLevelNames.at(static_cast<std::size_t>(level));
}

std::span<const std::string_view> attention_level_names() {
  return kLevelNames;
}

std::optional<AttentionLevel> parse_attention_level(std::string_view name) {
  const auto* const found = std::ranges::find(kLevelNames, name);
  if (found == kLevelNames.end()) {
    return std::nullopt;
  }
  return static_cast<AttentionLevel>(found - kLevelNames.begin());
}

std::optional<AttentionLevel> forced_attention_level() {
  constexpr const char* kVariable = "FOVEA_FORCE_KERNEL";
  const char* const name = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): only read
  if (name == nullptr || *name == '\0') {
    return std::nullopt;
  }
  const std::optional<AttentionLevel> level = parse_attention_level(name);
  if (!level.has_value()) {
    fail("{}={}: the levels are {}", kVariable, name, fmt::join(kLevelNames, ", "));
  }
  return level;
}

AttentionLevel plan_level(const AttentionPlan& plan) {
  using enum AttentionLevel;
  constexpr std::array kLevels = {kWgmma, kWgmma, kMma, kWmma, kScalar};
  static_assert(kLevels.size() == std::variant_size_v<AttentionPlan>);
  return kLevels.at(plan.index());
}

KernelId kernel_of(const AttentionPlan& plan, DType type) {
  return std::visit(
      [=](const auto* kernel) { return type == DType::kBF16 ? kernel->bf16 : kernel->f16; }, plan);
}

std::string to_string(const AttentionPlan& plan) {
  constexpr std::string_view kOperator = "attention_";
  constexpr std::string_view kType = "_bf16";
  std::string name(info_of(kernel_of(plan, DType::kBF16)).name.substr(kOperator.size()));
  return name.erase(name.find(kType), kType.size());
}

std::vector<AttentionPlan> attention_plans(const AttentionProblem& problem,
                                           const DeviceInfo& device) {
  std::vector<AttentionPlan> plans;
  if (!can_run(problem, device)) {
    return plans;
  }
  MmaVariants mma = mma_plans(problem, device);
  if (runs_by_wgmma(problem, device)) {
    for (const auto* const kernel : smallest_fitting_variants(kSinglePassVariants, problem)) {
      if (!problem.causal && problem.keys <= kernel->tuning.kv_tile &&
          problem.keys > kernel->tuning.kv_tile - 8) {
        plans.emplace_back(kernel);
      }
    }
    if (splits_keys(mma.front()->tuning, problem, device)) {
      plans.emplace_back(mma.front());
      mma.erase(mma.begin());
    }
    auto streaming = smallest_fitting_variants(kOnlineVariants, problem);
    std::ranges::sort(streaming, {}, [&](const auto* kernel) {
      return std::pair(online_time(kernel->tuning, problem, device), kernel);  // as in the table
    });
    plans.insert(plans.end(), streaming.begin(), streaming.end());
  }
  plans.insert(plans.end(), mma.begin(), mma.end());
  if (!has_reference_levels(device)) {
    return plans;
  }
  plans.emplace_back(smallest_fitting_variant(kMmaSmallVariants, problem, kAnyTuning));
  const int stages = problem.keys < attention::kScalarLongKeys ? 2 : 3;
  plans.emplace_back(smallest_fitting_variant(
      kScalarVariants, problem,
      [=](const attention::ScalarTuning& kernel) { return kernel.stages == stages; }));
  return plans;
}

AttentionChoice choose_attention(const AttentionProblem& problem, const DeviceInfo& device,
                                 std::optional<AttentionLevel> level, const GateRecord& record) {
  if (!level.has_value()) {
    level = forced_attention_level();
  }
  const std::vector<AttentionPlan> plans = attention_plans(problem, device);
  const auto found = std::ranges::find_if(plans, [&](const AttentionPlan& plan) {
    return !level.has_value() || plan_level(plan) == *level;
  });
  if (found == plans.end()) {
    throw Error(
        (level.has_value() ? can_run(problem, device, *level) : can_run(problem, device)).why);
  }
  if (level.has_value()) {
    return {.plan = *found, .notice = {}};
  }
  std::vector<std::string_view> levels;
  std::ranges::transform(plans, std::back_inserter(levels),
                         [](const AttentionPlan& plan) { return to_string(plan_level(plan)); });
  const std::size_t chosen = record.choose(levels);
  AttentionChoice choice{.plan = plans[chosen], .notice = {}};
  if (chosen > 0) {
    choice.notice =
        fmt::format("attention runs at level {}, not {}, which missed its gates on {}: {}",
                    levels[chosen], levels.front(), device.name, record.missed(levels.front()));
  }
  return choice;
}

AttentionPlan attention_plan(const AttentionProblem& problem, const DeviceInfo& device,
                             std::optional<AttentionLevel> level) {
  return choose_attention(problem, device, level, gate_record(device)).plan;
}

}  // namespace fovea::gpu
