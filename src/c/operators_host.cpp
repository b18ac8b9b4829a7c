// The C operators on the CPU backend's pieces.
#include "c/operators_host.hpp"

#include <vector>

#include "c/operator_types.hpp"
#include "cpu/operators.hpp"

namespace fovea::c {
namespace {

cpu::HeadStrides host_strides(const fovea_strides& strides) {
  return {.head = strides.head, .row = strides.row};
}

/// Sequences of one length each batch_stride apart, or of their own lengths one after the other.
std::vector<cpu::Sequence> sequences_of(const fovea_attention_args& args) {
  // Offsets rise from the first on, so that no other lies before the operands.
  if (args.cu_seqlens_q != nullptr && (args.cu_seqlens_q[0] < 0 || args.cu_seqlens_k[0] < 0)) {
    fail("attention: the first sequence begins at query {} and key {}, which cannot be negative",
         args.cu_seqlens_q[0], args.cu_seqlens_k[0]);
  }
  std::vector<cpu::Sequence> sequences;
  sequences.reserve(static_cast<std::size_t>(args.batch));
  for (std::int64_t i = 0; i < args.batch; ++i) {
    if (args.cu_seqlens_q == nullptr) {
      sequences.push_back({.q = i * args.q_strides.batch,
                           .k = i * args.k_strides.batch,
                           .v = i * args.v_strides.batch,
                           .o = i * args.o_strides.batch,
                           .queries = args.queries,
                           .keys = args.keys});
      continue;
    }
    const std::int64_t query = args.cu_seqlens_q[i];
    const std::int64_t key = args.cu_seqlens_k[i];
    sequences.push_back({.q = query * args.q_strides.row,
                         .k = key * args.k_strides.row,
                         .v = key * args.v_strides.row,
                         .o = query * args.o_strides.row,
                         .queries = args.cu_seqlens_q[i + 1] - query,
                         .keys = args.cu_seqlens_k[i + 1] - key});
    const cpu::Sequence& added = sequences.back();
    if (added.queries < 0 || added.queries > args.queries || added.keys < 0 ||
        added.keys > args.keys) {
      fail("attention: sequence {} has {} queries and {} keys; 0 to {} and {} are announced", i,
           added.queries, added.keys, args.queries, args.keys);
    }
  }
  return sequences;
}

cpu::Causal causal_of(std::int32_t causal) {
  switch (causal) {
    case FOVEA_CAUSAL_FIRST:
      return cpu::Causal::kFirst;
    case FOVEA_CAUSAL_LAST:
      return cpu::Causal::kLast;
    default:
      return cpu::Causal::kNone;
  }
}

}  // namespace

void attention_on_host(const fovea_attention_args& args, int threads) {
  if (args.level != FOVEA_LEVEL_AUTO) {
    fail("attention: its levels are kernels of GPUs; on the CPU there is one way only");
  }
  const std::vector<cpu::Sequence> sequences = sequences_of(args);
  cpu::attention({.q = args.q,
                  .k = args.k,
                  .v = args.v,
                  .o = args.o,
                  .q_strides = host_strides(args.q_strides),
                  .k_strides = host_strides(args.k_strides),
                  .v_strides = host_strides(args.v_strides),
                  .o_strides = host_strides(args.o_strides),
                  .sequences = sequences,
                  .heads = args.heads,
                  .kv_heads = args.kv_heads,
                  .head_dim = args.head_dim,
                  .scale = args.scale,
                  .causal = causal_of(args.causal),
                  .type = type_of(args.type)},
                 threads);
}

void linear_on_host(const fovea_linear_args& args, int threads) {
  const DType type = type_of(args.type);
  cpu::linear({.x = args.x,
               .weight = args.weight,
               .bias = args.bias,
               .output = args.output,
               .rows = args.rows,
               .in = args.in,
               .out = args.out,
               .epilogue = epilogue_of(args.epilogue),
               .x_type = type,
               .weight_type = type,
               .type = type},
              threads);
}

void patch_embed_on_host(const fovea_patch_embed_args& args, int threads) {
  cpu::patch_embed({.x = args.patches,
                    .weight = args.weight,
                    .scale = args.scale,
                    .output = args.output,
                    .rows = args.images * args.tokens,
                    .in = args.in,
                    .out = args.out,
                    .x_type = type_of(args.patch_type),
                    .weight_type = type_of(args.weight_type),
                    .type = type_of(args.type)},
                   args.position, args.tokens, threads);
}

void layer_norm_on_host(const fovea_layer_norm_args& args, int threads) {
  cpu::layer_norm({.x = args.x,
                   .weight = args.weight,
                   .bias = args.bias,
                   .output = args.output,
                   .rows = args.rows,
                   .width = args.width,
                   .eps = args.eps,
                   .type = type_of(args.type)},
                  threads);
}

}  // namespace fovea::c
