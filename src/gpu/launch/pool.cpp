// The pooling head's launches: attention of the folded probe, then four small linear layers.
#include "gpu/launch/pool.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"
#include "gpu/launch/norm.hpp"
#include "kernels/pool/pool_params.hpp"

namespace fovea::gpu {
namespace {

/// Up to here each tile of 16 rows reads the weights for itself, with all warps along the depth.
constexpr std::int64_t kSkinnyRows = 256;
/// attend with tiles of 32 tokens holds this much of hidden; with 16, the most.
constexpr std::int64_t kNarrowHidden = 768;
constexpr std::int64_t kMaxHidden = 1536;

std::int64_t up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct AttendPlan {
  int tokens = 0;  // of a tile
  std::int64_t splits = 0;
  std::int64_t tokens_per_split = 0;
};

/// Few images leave SMs idle: each is then split among several.
AttendPlan plan_attend(const PoolProblem& problem, const DeviceInfo& device) {
  AttendPlan plan;
  plan.tokens = problem.hidden <= kNarrowHidden ? 32 : 16;
  const std::int64_t wanted = std::max<std::int64_t>(1, device.sm_count / problem.images);
  plan.tokens_per_split = up((problem.tokens + wanted - 1) / wanted, plan.tokens);
  plan.splits = (problem.tokens + plan.tokens_per_split - 1) / plan.tokens_per_split;
  return plan;
}

/// Where the head's intermediate results lie in its workspace; offsets in bytes.
struct Layout {
  std::size_t mean = 0;        // bf16 (images, heads, hidden)
  std::size_t partial = 0;     // f32 (images, splits, kMaxHeads, hidden)
  std::size_t statistics = 0;  // f32 (images, splits, 2, kMaxHeads)
  std::size_t value = 0;       // bf16 (images, hidden)
  std::size_t attended = 0;    // f32 (images, hidden)
  std::size_t normed = 0;      // bf16 (images, hidden)
  std::size_t inner = 0;       // bf16 (images, mlp)
  std::size_t bytes = 0;

  Layout(const PoolProblem& problem, const AttendPlan& plan) {
    const auto take = [this](std::int64_t elements, std::int64_t size) {
      constexpr std::int64_t kAlignment = 256;
      const std::size_t at = bytes;
      bytes += static_cast<std::size_t>(up(elements * size, kAlignment));
      return at;
    };
    const std::int64_t split = plan.splits > 1 ? problem.images * plan.splits : 0;
    mean = take(problem.images * problem.heads * problem.hidden, 2);
    partial = take(split * pool::kMaxHeads * problem.hidden, 4);
    statistics = take(split * 2 * pool::kMaxHeads, 4);
    value = take(problem.images * problem.hidden, 2);
    attended = take(problem.images * problem.hidden, 4);
    normed = take(problem.images * problem.hidden, 2);
    inner = take(problem.images * problem.mlp, 2);
  }
};

std::uint32_t blocks(std::int64_t work, std::int64_t each) {
  return static_cast<std::uint32_t>((work + each - 1) / each);
}

Launch linear_launch(const pool::LinearParams& params) {
  Launch launch{.kernel = KernelId::pool_linear_skinny,
                .config = {.grid = {blocks(params.columns, 8), blocks(params.rows, 16), 1},
                           .block = {pool::kThreads, 1, 1},
                           .cluster = {},
                           .dynamic_shared_bytes = 0,
                           .dependent = true},
                .params = to_bytes(params)};
  if (params.rows > kSkinnyRows) {
    if (params.columns % 32 == 0 && params.group_columns % 32 == 0) {
      launch.kernel = KernelId::pool_linear_wide;  // 4 x 2 warps of 32 x 32
      launch.config.grid = {blocks(params.columns, 64), blocks(params.rows, 128), 1};
    } else {
      launch.kernel = KernelId::pool_linear_wide_8;  // 4 x 2 warps of 64 x 8
      launch.config.grid = {blocks(params.columns, 16), blocks(params.rows, 256), 1};
    }
  }
  return launch;
}

}  // namespace

std::string to_string(const PoolProblem& problem) {
  return fmt::format("pool: {} images of {} tokens of {}, {} heads, mlp {}", problem.images,
                     problem.tokens, problem.hidden, problem.heads, problem.mlp);
}

std::string can_run(const PoolProblem& problem, const DeviceInfo& device) {
  if (problem.images <= 0 || problem.tokens <= 0 || problem.heads <= 0 || problem.hidden <= 0 ||
      problem.mlp <= 0) {
    return "a dimension is not positive";
  }
  if (problem.heads > pool::kMaxHeads) {
    return fmt::format("{} heads; up to {} can be", problem.heads, pool::kMaxHeads);
  }
  if (problem.hidden % 16 != 0 || problem.hidden > kMaxHidden) {
    return fmt::format("a hidden size of {}; multiples of 16 up to {} can be", problem.hidden,
                       kMaxHidden);
  }
  if (problem.hidden % problem.heads != 0 || problem.hidden / problem.heads % 8 != 0 ||
      problem.mlp % 8 != 0) {
    return "the heads' and the MLP's sizes must be multiples of 8";
  }
  const AttendPlan plan = plan_attend(problem, device);
  const auto shared = static_cast<std::size_t>(
      pool::attend_shared_bytes(plan.tokens, static_cast<int>(problem.hidden)));
  if (shared > device.shared_bytes_per_block) {
    return fmt::format("it takes {} bytes of shared memory; a block on {} has {}", shared,
                       device.name, device.shared_bytes_per_block);
  }
  constexpr std::int64_t kMostImages = 65535;  // the grid's second dimension
  return problem.images > kMostImages ? fmt::format("more than {} images", kMostImages) : "";
}

std::vector<std::uint32_t> pack_pool_keys(std::span<const float> keys, std::int64_t heads,
                                          std::int64_t hidden) {
  const auto at = [&](std::int64_t head, std::int64_t i) -> std::uint32_t {
    return head < heads ? to_bfloat16(keys[static_cast<std::size_t>(head * hidden + i)]).bits : 0;
  };
  std::vector<std::uint32_t> packed;
  packed.reserve(static_cast<std::size_t>(hidden * pool::kMaxHeads / 2));
  for (std::int64_t step = 0; step < hidden / 16; ++step) {
    for (std::int64_t lane = 0; lane < 32; ++lane) {
      for (std::int64_t part = 0; part < 4; ++part) {
        const std::int64_t head = part / 2 * 8 + lane / 4;
        const std::int64_t i = step * 16 + part % 2 * 8 + lane % 4 * 2;
        packed.push_back(at(head, i) | at(head, i + 1) << 16);
      }
    }
  }
  return packed;
}

std::size_t pool_workspace_bytes(const PoolProblem& problem, const DeviceInfo& device) {
  // Fewer images are split among more blocks, so that they may need more than many images do.
  std::size_t most = 0;
  for (PoolProblem fewer = problem; fewer.images > 0; --fewer.images) {
    const AttendPlan plan = plan_attend(fewer, device);
    most = std::max(most, Layout(fewer, plan).bytes);
  }
  return most;
}

std::vector<Launch> pool_launches(Device& device, const PoolProblem& problem,
                                  const PoolOperands& operands) {
  const std::string reason = can_run(problem, device.info());
  if (!reason.empty()) {
    fail("{}: {}", to_string(problem), reason);
  }
  const AttendPlan plan = plan_attend(problem, device.info());
  const Layout layout(problem, plan);
  const auto images = static_cast<std::uint32_t>(problem.images);
  const auto hidden = static_cast<std::int32_t>(problem.hidden);
  const auto heads = static_cast<std::int32_t>(problem.heads);
  const auto splits = static_cast<std::int32_t>(plan.splits);
  const DevicePtr base = operands.workspace;
  std::vector<Launch> launches;
  launches.push_back({.kernel = problem.hidden <= kNarrowHidden ? KernelId::pool_attend_6
                                                                : KernelId::pool_attend_12,
                      .config = {.grid = {static_cast<std::uint32_t>(splits), images, 1},
                                 .block = {pool::kThreads, 1, 1},
                                 .cluster = {},
                                 .dynamic_shared_bytes = static_cast<std::size_t>(
                                     pool::attend_shared_bytes(plan.tokens, hidden)),
                                 .dependent = true},
                      .params = to_bytes(pool::AttendParams{
                          .x = pointer<const std::uint16_t>(operands.x),
                          .keys = pointer<const std::uint32_t>(operands.keys),
                          .mean = pointer<std::uint16_t>(base + layout.mean),
                          .partial = pointer<float>(base + layout.partial),
                          .statistics = pointer<float>(base + layout.statistics),
                          .tokens = static_cast<std::int32_t>(problem.tokens),
                          .heads = heads,
                          .hidden = hidden,
                          .splits = splits,
                          .tokens_per_split = static_cast<std::int32_t>(plan.tokens_per_split)})});
  if (splits > 1) {
    launches.push_back({.kernel = KernelId::pool_combine,
                        .config = {.grid = {static_cast<std::uint32_t>(heads), images, 1},
                                   .block = {pool::kThreads, 1, 1},
                                   .cluster = {},
                                   .dynamic_shared_bytes = 0,
                                   .dependent = true},
                        .params = to_bytes(pool::CombineParams{
                            .partial = pointer<const float>(base + layout.partial),
                            .statistics = pointer<const float>(base + layout.statistics),
                            .mean = pointer<std::uint16_t>(base + layout.mean),
                            .heads = heads,
                            .hidden = hidden,
                            .splits = splits})});
  }

  const auto linear = [&](const PoolLinear& layer, DevicePtr a, std::int32_t depth,
                          std::int32_t columns) {
    return pool::LinearParams{.a = pointer<const std::uint16_t>(a),
                              .w = pointer<const std::uint16_t>(layer.weight),
                              .bias = pointer<const float>(layer.bias),
                              .a_stride = depth,
                              .group_columns = columns,
                              .rows = static_cast<std::int32_t>(problem.images),
                              .columns = columns,
                              .depth = depth};
  };
  // A head's columns of V come from that head's mean.
  pool::LinearParams value = linear(operands.value, base + layout.mean, hidden, hidden);
  value.a_stride = problem.heads * problem.hidden;
  value.group_stride = problem.hidden;
  value.group_columns = hidden / heads;
  value.output_bf16 = pointer<std::uint16_t>(base + layout.value);
  launches.push_back(linear_launch(value));

  pool::LinearParams out = linear(operands.out, base + layout.value, hidden, hidden);
  out.output_f32 = pointer<float>(base + layout.attended);
  launches.push_back(linear_launch(out));

  launches.push_back(layer_norm_launch(device,
                                       {.rows = problem.images,
                                        .width = problem.hidden,
                                        .eps = problem.eps,
                                        .input = DType::kF32,
                                        .output = DType::kBF16},
                                       {.input = base + layout.attended,
                                        .weight = operands.norm_weight,
                                        .bias = operands.norm_bias,
                                        .output = base + layout.normed}));

  const auto mlp = static_cast<std::int32_t>(problem.mlp);
  pool::LinearParams fc1 = linear(operands.fc1, base + layout.normed, hidden, mlp);
  fc1.activation = pool::Activation::kGelu;
  fc1.output_bf16 = pointer<std::uint16_t>(base + layout.inner);
  launches.push_back(linear_launch(fc1));

  pool::LinearParams fc2 = linear(operands.fc2, base + layout.inner, mlp, hidden);
  fc2.activation = pool::Activation::kResidual;
  fc2.residual = pointer<const float>(base + layout.attended);
  fc2.output_f32 = pointer<float>(operands.output);
  launches.push_back(linear_launch(fc2));
  return launches;
}

}  // namespace fovea::gpu
