// Attention on a GPU: the launches of plans, with their grids and parameters.
#include <algorithm>
#include <numbers>

#include "core/divide_up.hpp"
#include "gpu/launch/attention.hpp"
#include "kernels/attention/attention_params.hpp"

namespace fovea::gpu {
namespace {

using attention::kOutputRows;
using attention::kTileRows;
using attention::OnlineTuning;
using attention::SinglePassTuning;
using ops::AttentionOperands;
using ops::AttentionProblem;
using ops::AttentionStrides;

/// Returns a tensor map for boxes `span` columns wide in a tensor (head_dim, rows, heads, images).
/// Columns past head_dim are read as zeros and not written.
TensorMap encode(Device& device, const AttentionProblem& problem, DevicePtr address,
                 const AttentionStrides& strides, std::int64_t rows, std::int64_t heads,
                 std::int64_t box_rows, std::int64_t span) {
  const auto size = static_cast<std::int64_t>(size_of(problem.type));
  // A dimension of one element has no stride that matters, but the driver checks it.
  const auto stride = [&](std::int64_t count, std::int64_t elements) {
    return static_cast<std::uint64_t>(count == 1 ? 16 : elements * size);
  };
  TensorMapDesc desc;
  desc.type = problem.type == DType::kF16 ? TensorMapType::kF16 : TensorMapType::kBF16;
  desc.address = address;
  desc.rank = 4;
  desc.dims = {static_cast<std::uint64_t>(problem.head_dim), static_cast<std::uint64_t>(rows),
               static_cast<std::uint64_t>(heads), static_cast<std::uint64_t>(problem.batch)};
  desc.strides = {stride(rows, strides.row), stride(heads, strides.head),
                  stride(problem.batch, strides.batch)};
  desc.box = {static_cast<std::uint32_t>(span), static_cast<std::uint32_t>(box_rows), 1, 1};
  switch (span * size) {
    case 128:
      desc.swizzle = Swizzle::k128;
      break;
    case 64:
      desc.swizzle = Swizzle::k64;
      break;
    default:
      desc.swizzle = Swizzle::k32;
  }
  return device.encode(desc);
}

/// Returns the tensor maps for a kernel with heads `columns` wide.
attention::OperandMaps encode_operand(Device& device, const AttentionProblem& problem,
                                      DevicePtr address, const AttentionStrides& strides,
                                      std::int64_t rows, std::int64_t heads, std::int64_t box_rows,
                                      int columns) {
  attention::OperandMaps maps{};
  maps.wide = encode(device, problem, address, strides, rows, heads, box_rows, 64);
  if (const int rest = attention::rest_columns(columns); rest != 0) {
    maps.rest = encode(device, problem, address, strides, rows, heads, box_rows, rest);
  }
  return maps;
}

float scale_log2(const AttentionProblem& problem) {
  return static_cast<float>(problem.scale * std::numbers::log2e);
}

/// Returns the parameters without the partition of the work.
attention::Sm90Params sm90_params(Device& device, const AttentionProblem& problem,
                                  const AttentionOperands& operands, std::int64_t key_rows,
                                  int columns) {
  attention::Sm90Params params{};
  params.q = encode_operand(device, problem, operands.q, problem.q, problem.queries, problem.heads,
                            kTileRows, columns);
  params.k = encode_operand(device, problem, operands.k, problem.k, problem.keys,
                            problem.key_heads(), key_rows, columns);
  params.v = encode_operand(device, problem, operands.v, problem.v, problem.keys,
                            problem.key_heads(), key_rows, columns);
  params.o = encode_operand(device, problem, operands.o, problem.o, problem.queries, problem.heads,
                            kOutputRows, columns);
  params.scale_log2 = scale_log2(problem);
  params.heads = static_cast<std::int32_t>(problem.heads);
  params.head_group = static_cast<std::int32_t>(problem.heads / problem.key_heads());
  params.queries = static_cast<std::int32_t>(problem.queries);
  params.keys = static_cast<std::int32_t>(problem.keys);
  params.causal = problem.causal ? 1 : 0;
  return params;
}

Launch sm90_launch(const attention::Sm90Params& params, const DeviceInfo& device) {
  return {
      .config = {.grid = {.x = static_cast<std::uint32_t>(std::min(params.items, device.sm_count))},
                 .dependent = true},
      .params = to_bytes(params)};
}

Launch make_launch(Device& device, const AttentionProblem& problem,
                   const AttentionOperands& operands, const SinglePassTuning& kernel) {
  const std::int64_t all_heads = problem.batch * problem.heads;
  const std::int64_t tiles = divide_up(problem.queries, kTileRows);
  // An item is a whole head, so that its keys are read only once, or one tile if there are fewer
  // heads than SMs.
  const bool whole_heads = all_heads >= device.info().sm_count;
  attention::Sm90Params params =
      sm90_params(device, problem, operands, attention::key_rows(kernel.kv_tile), kernel.head_dim);
  params.parts = static_cast<std::int32_t>(whole_heads ? 1 : tiles);
  params.tiles = static_cast<std::int32_t>(whole_heads ? tiles : 1);
  params.items = static_cast<std::int32_t>(all_heads * params.parts);
  params.heads_together = 1;
  params.last_image = static_cast<std::int32_t>(problem.batch) - 1;
  return sm90_launch(params, device.info());
}

/// Returns the largest divisor of the number of heads whose keys and values fill at most two thirds
/// of the L2 cache.
std::int64_t heads_in_l2(const AttentionProblem& problem, const DeviceInfo& device) {
  const std::int64_t all_heads = problem.batch * problem.heads;
  const std::int64_t bytes = problem.keys * problem.head_dim * 4;
  std::int64_t count = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(device.l2_bytes) * 2 / 3 / bytes, 1, all_heads);
  while (all_heads % count != 0) {
    --count;
  }
  return count;
}

Launch make_launch(Device& device, const AttentionProblem& problem,
                   const AttentionOperands& operands, const OnlineTuning& kernel) {
  attention::Sm90Params params =
      sm90_params(device, problem, operands, kernel.kv_tile, kernel.head_dim);
  params.parts = static_cast<std::int32_t>(
      divide_up(problem.queries, std::int64_t{kTileRows} * kernel.consumers));
  params.tiles = kernel.consumers;
  params.items = static_cast<std::int32_t>(problem.batch * problem.heads * params.parts);
  params.heads_together =
      problem.causal ? static_cast<std::int32_t>(heads_in_l2(problem, device.info())) : 1;
  return sm90_launch(params, device.info());
}

/// Returns a launch with `rows` queries per CTA, for the levels below wgmma.
Launch portable_launch(const AttentionProblem& problem, const AttentionOperands& operands,
                       int rows) {
  const auto operand = [](DevicePtr address, const AttentionStrides& strides) {
    return attention::PortableOperand{.data = pointer<std::uint8_t>(address),
                                      .batch = strides.batch,
                                      .row = strides.row,
                                      .head = strides.head};
  };
  attention::PortableParams params{};
  params.q = operand(operands.q, problem.q);
  params.k = operand(operands.k, problem.k);
  params.v = operand(operands.v, problem.v);
  params.o = operand(operands.o, problem.o);
  if (problem.varlen) {
    params.cu_seqlens_q = pointer<const std::int32_t>(operands.cu_seqlens_q);
    params.cu_seqlens_k = pointer<const std::int32_t>(operands.cu_seqlens_k);
  }
  params.scale_log2 = scale_log2(problem);
  params.tiles = static_cast<std::int32_t>(divide_up(problem.queries, rows));
  params.heads = static_cast<std::int32_t>(problem.heads);
  params.head_group = static_cast<std::int32_t>(problem.heads / problem.key_heads());
  params.queries = static_cast<std::int32_t>(problem.queries);
  params.keys = static_cast<std::int32_t>(problem.keys);
  params.head_dim = static_cast<std::int32_t>(problem.head_dim);
  params.causal = problem.causal ? 1 : 0;

  const std::int64_t blocks = problem.batch * problem.heads * params.tiles;
  return {.config = {.grid = {.x = static_cast<std::uint32_t>(blocks)}, .dependent = true},
          .params = to_bytes(params)};
}

Launch make_launch(Device& /*device*/, const AttentionProblem& problem,
                   const AttentionOperands& operands, const attention::MmaTuning& kernel) {
  return portable_launch(problem, operands, mma_rows(kernel));
}

Launch make_launch(Device& /*device*/, const AttentionProblem& problem,
                   const AttentionOperands& operands, const attention::MmaSmallTuning& kernel) {
  return portable_launch(problem, operands, mma_small_rows(kernel));
}

Launch make_launch(Device& /*device*/, const AttentionProblem& problem,
                   const AttentionOperands& operands, const attention::ScalarTuning& /*kernel*/) {
  return portable_launch(problem, operands, kTileRows);
}

}  // namespace

Launch attention_launch(Device& device, const AttentionProblem& problem,
                        const AttentionOperands& operands, const AttentionPlan& plan) {
  Launch launch = std::visit(
      [&](const auto* kernel) { return make_launch(device, problem, operands, kernel->tuning); },
      plan);
  launch.kernel = kernel_of(plan, problem.type);
  const CtaSize cta = cta_size(plan);
  launch.config.block = {.x = static_cast<std::uint32_t>(cta.threads)};
  launch.config.dynamic_shared_bytes = cta.dynamic_shared_bytes;
  return launch;
}

}  // namespace fovea::gpu
