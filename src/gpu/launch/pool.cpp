// Launches of the pooling head (attention of the folded probe, and four small linear layers) and of
// the text tower's head.
#include "gpu/launch/pool.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "gpu/launch/norm.hpp"
#include "kernels/pool/pool_params.hpp"

namespace fovea::gpu {
namespace {

using ops::PoolProblem;

/// The maximum number of rows for tiles of 16 rows, each of which reads all weights and splits the
/// depth among its warps.
constexpr std::int64_t kSkinnyRows = 256;
/// The maximum hidden size of pool_scores_3; pool_scores_6 is for up to kMaxHidden.
constexpr std::int64_t kMaxNarrowHidden = 768;
constexpr std::int64_t kMaxHidden = 1536;

/// Byte offsets of the head's intermediate results in its workspace.
struct Layout {
  std::size_t scores = 0;    // f32 (images, tokens, kMaxHeads)
  std::size_t norms = 0;     // pool::RowNorm (images, tokens)
  std::size_t mean = 0;      // bf16 (images, heads, hidden)
  std::size_t value = 0;     // bf16 (images, hidden)
  std::size_t attended = 0;  // f32 (images, hidden)
  std::size_t normed = 0;    // bf16 (images, hidden)
  std::size_t inner = 0;     // bf16 (images, mlp)
  std::size_t bytes = 0;

  explicit Layout(const PoolProblem& problem) {
    const auto take = [this](std::int64_t elements, std::size_t size) {
      constexpr std::size_t kAlignment = 256;
      const std::size_t offset = bytes;
      bytes += divide_up(static_cast<std::size_t>(elements) * size, kAlignment) * kAlignment;
      return offset;
    };
    const std::int64_t rows = problem.rows();
    scores = take(rows * pool::kMaxHeads, sizeof(float));
    norms = take(rows, sizeof(pool::RowNorm));
    mean = take(problem.images * problem.heads * problem.hidden, 2);
    value = take(problem.images * problem.hidden, 2);
    attended = take(problem.images * problem.hidden, 4);
    normed = take(problem.images * problem.hidden, 2);
    inner = take(problem.images * problem.mlp, 2);
  }
};

std::uint32_t blocks(std::int64_t work, std::int64_t each) {
  return static_cast<std::uint32_t>(divide_up(work, each));
}

/// Returns parameters for contiguous rows of `a`; the caller sets the output.
pool::LinearParams linear_params(const PoolLinear& layer, DevicePtr a, std::int64_t rows,
                                 std::int32_t depth, std::int32_t columns) {
  return {.a = pointer<const std::uint16_t>(a),
          .w = pointer<const std::uint16_t>(layer.weight),
          .bias = pointer<const float>(layer.bias),
          .a_stride = depth,
          .group_columns = columns,
          .rows = static_cast<std::int32_t>(rows),
          .columns = columns,
          .depth = depth};
}

Launch linear_launch(const pool::LinearParams& params) {
  Launch launch{.kernel = KernelId::pool_linear_skinny,
                .config = {.grid = {blocks(params.columns, 8), blocks(params.rows, 16), 1},
                           .block = {pool::kThreads, 1, 1},
                           .dependent = true},
                .params = to_bytes(params)};
  if (params.rows > kSkinnyRows) {
    if (params.columns % 32 == 0 && params.group_columns % 32 == 0) {
      launch.kernel = KernelId::pool_linear_wide;  // 4 x 2 warps of 16 x 32
      launch.config.grid = {blocks(params.columns, 64), blocks(params.rows, 64), 1};
    } else {
      launch.kernel = KernelId::pool_linear_wide_8;  // 4 x 2 warps of 32 x 8
      launch.config.grid = {blocks(params.columns, 16), blocks(params.rows, 128), 1};
    }
  }
  return launch;
}

}  // namespace

Support can_run(const PoolProblem& problem, const DeviceInfo& device) {
  if (Support support = valid(problem); !support) {
    return support;
  }
  if (problem.input != DType::kBF16) {
    return {fmt::format("unsupported input type {}; expected bf16", to_string(problem.input))};
  }
  if (problem.heads > pool::kMaxHeads) {
    return {
        fmt::format("{} heads exceed the supported maximum of {}", problem.heads, pool::kMaxHeads)};
  }
  if (problem.hidden % 16 != 0 || problem.hidden > kMaxHidden) {
    return {fmt::format("unsupported hidden size {}; expected a multiple of 16 up to {}",
                        problem.hidden, kMaxHidden)};
  }
  if (problem.head_dim() % 8 != 0 || problem.mlp % 8 != 0) {
    return {"the heads' and the MLP's sizes must be multiples of 8"};
  }
  const std::int64_t max_tokens =
      (static_cast<std::int64_t>(device.shared_bytes_per_block) - pool::mean_shared_bytes(0)) /
      (2 * pool::kMaxHeads) / pool::kMeanTokens * pool::kMeanTokens;
  if (problem.tokens > max_tokens) {
    return {fmt::format("{} tokens per image exceed the maximum for the shared memory of {}: {}",
                        problem.tokens, device.name, std::max<std::int64_t>(max_tokens, 0))};
  }
  constexpr std::int64_t kMaxImages = 65535;  // maximum of the grid's second dimension
  return problem.images > kMaxImages
             ? Support{fmt::format("{} images exceed the supported maximum of {}", problem.images,
                                   kMaxImages)}
             : Support{};
}

PackedPoolKeys pack_pool_keys(std::span<const float> keys, std::int64_t hidden) {
  const auto width = static_cast<std::size_t>(hidden);
  PackedPoolKeys packed;
  packed.keys.resize(pool::kMaxHeads * width);
  packed.sums.resize(pool::kMaxHeads);
  std::ranges::transform(keys, packed.keys.begin(), to_bfloat16);
  for (std::size_t head = 0; head < packed.sums.size(); ++head) {
    double sum = 0;
    for (const BFloat16 key : std::span(packed.keys).subspan(head * width, width)) {
      sum += double{to_float(key)};
    }
    packed.sums[head] = static_cast<float>(sum);
  }
  return packed;
}

std::size_t pool_workspace_bytes(const PoolProblem& problem) {
  return Layout(problem).bytes;
}

std::vector<Launch> pool_launches(Device& device, const PoolProblem& problem,
                                  const PoolOperands& operands) {
  if (const Support support = can_run(problem, device.info()); !support) {
    fail("{}: {}", to_string(problem), support.why);
  }
  const Layout layout(problem);
  const std::int64_t rows = problem.rows();
  const auto hidden = static_cast<std::int32_t>(problem.hidden);
  const auto heads = static_cast<std::int32_t>(problem.heads);
  const auto tokens = static_cast<std::int32_t>(problem.tokens);
  const DevicePtr base = operands.workspace;
  std::vector<Launch> launches;
  launches.push_back(
      {.kernel =
           problem.hidden <= kMaxNarrowHidden ? KernelId::pool_scores_3 : KernelId::pool_scores_6,
       .config = {.grid = {blocks(rows, pool::kScoreRows), 1, 1},
                  .block = {pool::kThreads, 1, 1},
                  .dependent = true},
       .params = to_bytes(pool::ScoreParams{.x = pointer<const std::uint16_t>(operands.x),
                                            .keys = pointer<const std::uint16_t>(operands.keys),
                                            .key_sums = pointer<const float>(operands.key_sums),
                                            .scores = pointer<float>(base + layout.scores),
                                            .norms = pointer<pool::RowNorm>(base + layout.norms),
                                            .rows = rows,
                                            .hidden = hidden,
                                            .inverse_hidden = 1.0F / static_cast<float>(hidden),
                                            .eps = static_cast<float>(problem.eps)})});
  launches.push_back(
      {.kernel = KernelId::pool_mean,
       .config = {.grid = {blocks(problem.hidden, pool::kMeanColumns),
                           static_cast<std::uint32_t>(problem.images), 1},
                  .block = {pool::kMeanThreads, 1, 1},
                  .dynamic_shared_bytes = static_cast<std::size_t>(pool::mean_shared_bytes(tokens)),
                  .dependent = true},
       .params = to_bytes(pool::MeanParams{
           .x = pointer<const std::uint16_t>(operands.x),
           .scores = pointer<const float>(base + layout.scores),
           .norms = pointer<const pool::RowNorm>(base + layout.norms),
           .mean = pointer<std::uint16_t>(base + layout.mean),
           .starts = pointer<const std::int32_t>(problem.varlen ? operands.starts : DevicePtr{0}),
           .tokens = tokens,
           .heads = heads,
           .hidden = hidden})});

  const auto linear = [&](const PoolLinear& layer, DevicePtr a, std::int32_t depth,
                          std::int32_t columns) {
    return linear_params(layer, a, problem.images, depth, columns);
  };
  // The columns of V that belong to a head are computed from that head's mean.
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

Support can_run(const ops::ProjectProblem& problem, const DeviceInfo& /*device*/) {
  if (Support support = valid(problem); !support) {
    return support;
  }
  if (!problem.projected) {
    return {"text heads without a projection are not supported on GPUs"};
  }
  if (problem.input != DType::kBF16) {
    return {fmt::format("unsupported input type {}; expected bf16", to_string(problem.input))};
  }
  if (problem.hidden % 8 != 0 || problem.out % 8 != 0) {
    return {fmt::format("unsupported sizes {} and {}; expected multiples of 8", problem.hidden,
                        problem.out)};
  }
  return {};
}

std::size_t project_workspace_bytes(const ops::ProjectProblem& problem) {
  return static_cast<std::size_t>(problem.rows() * problem.hidden) * sizeof(BFloat16);
}

std::vector<Launch> project_launches(Device& device, const ops::ProjectProblem& problem,
                                     const ProjectOperands& operands) {
  if (const Support support = can_run(problem, device.info()); !support) {
    fail("{}: {}", to_string(problem), support.why);
  }
  const auto token_offset =
      static_cast<DevicePtr>(problem.token * problem.hidden) * sizeof(BFloat16);
  pool::LinearParams projection = linear_params(
      operands.linear, operands.workspace + token_offset, problem.sequences,
      static_cast<std::int32_t>(problem.hidden), static_cast<std::int32_t>(problem.out));
  projection.a_stride = problem.tokens * problem.hidden;
  projection.output_f32 = pointer<float>(operands.output);
  return {layer_norm_launch(device,
                            {.rows = problem.rows(),
                             .width = problem.hidden,
                             .eps = problem.eps,
                             .input = problem.input,
                             .output = DType::kBF16},
                            {.input = operands.x,
                             .weight = operands.norm_weight,
                             .bias = operands.norm_bias,
                             .output = operands.workspace}),
          linear_launch(projection)};
}

}  // namespace fovea::gpu
