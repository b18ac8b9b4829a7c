// The operators of the C interface: convert structs to problems, check them, and compute on the
// host or in a stream.
#include "fovea/c/operators.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "c/lifetime.hpp"
#include "c/status.hpp"
#include "cpu/host_threads.hpp"
#include "gpu/caller_stream.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/attention.hpp"
#include "ops/attention/op.hpp"
#include "ops/layer_norm/op.hpp"
#include "ops/linear/op.hpp"
#include "ops/patch_embed/op.hpp"

namespace fovea::c {
namespace {

template <typename Problem, typename Operands>
struct Call {
  Problem problem;
  Operands operands;
};

void require_memory(std::string_view name, std::initializer_list<const void*> operands) {
  for (const void* const operand : operands) {
    if (operand == nullptr) {
      fail("{}: an operand is NULL", name);
    }
  }
}

/// Returns the problem, or throws when it is invalid.
template <typename Problem>
Problem checked_problem(std::string_view name, const Problem& problem) {
  if (const Support support = valid(problem); !support) {
    fail("{}: {}", name, support.why);
  }
  return problem;
}

DType float_type(std::string_view name, std::int32_t type) {
  // Types in the order of fovea_type, from FOVEA_F16 on.
  constexpr DType kTypes[] = {DType::kF16, DType::kBF16, DType::kF32};
  if (type < FOVEA_F16 || type > FOVEA_F32) {
    fail("{}: unsupported fovea_type {}; expected f16, bf16 or f32", name, type);
  }
  return kTypes[type - FOVEA_F16];
}

ops::Epilogue to_epilogue(std::int32_t epilogue) {
  // The epilogues in the order of fovea_epilogue.
  constexpr ops::Epilogue kEpilogues[] = {ops::Epilogue::kNone, ops::Epilogue::kGeluTanh,
                                          ops::Epilogue::kResidual};
  if (epilogue < FOVEA_EPILOGUE_NONE || epilogue > FOVEA_EPILOGUE_RESIDUAL) {
    fail("invalid fovea_epilogue {}", epilogue);
  }
  return kEpilogues[epilogue];
}

std::optional<gpu::AttentionLevel> to_level(std::int32_t level) {
  if (level == FOVEA_LEVEL_AUTO) {
    // The result has no effect on the host, but an invalid name in the environment is an error
    // there, too.
    return gpu::forced_attention_level();
  }
  if (level < FOVEA_LEVEL_SCALAR || level > FOVEA_LEVEL_WGMMA) {
    fail("invalid fovea_level {}", level);
  }
  return static_cast<gpu::AttentionLevel>(level - FOVEA_LEVEL_SCALAR);  // in the same order
}

ops::AttentionStrides to_strides(const fovea_strides& strides) {
  return {.batch = strides.batch, .row = strides.row, .head = strides.head};
}

using AttentionCall = Call<ops::AttentionProblem, ops::AttentionOperands>;

/// Splits attention into one call or two: with a mask aligned to the first key, keys beyond the
/// last query are ignored, and queries beyond the last key see all keys.
std::vector<AttentionCall> attention_calls(const fovea_attention_args& args) {
  constexpr std::string_view kName = "attention";
  require_memory(kName, {args.q, args.k, args.v, args.o});
  if (args.kv_heads < 1) {
    fail("attention: invalid number of key heads {}", args.kv_heads);
  }
  if (args.causal < FOVEA_CAUSAL_NONE || args.causal > FOVEA_CAUSAL_LAST) {
    fail("attention: invalid fovea_causal {}", args.causal);
  }
  if ((args.cu_seqlens_q == nullptr) != (args.cu_seqlens_k == nullptr)) {
    fail("attention: offsets must be given for both queries and keys, or for neither");
  }
  const bool varlen = args.cu_seqlens_q != nullptr;
  AttentionCall call{.problem = checked_problem(
                         kName, ops::AttentionProblem{.batch = args.batch,
                                                      .heads = args.heads,
                                                      .kv_heads = args.kv_heads,
                                                      .queries = args.queries,
                                                      .keys = args.keys,
                                                      .head_dim = args.head_dim,
                                                      .scale = args.scale,
                                                      .causal = args.causal != FOVEA_CAUSAL_NONE,
                                                      .type = float_type(kName, args.type),
                                                      .varlen = varlen,
                                                      .q = to_strides(args.q_strides),
                                                      .k = to_strides(args.k_strides),
                                                      .v = to_strides(args.v_strides),
                                                      .o = to_strides(args.o_strides)}),
                     .operands = {.q = address_of(args.q),
                                  .k = address_of(args.k),
                                  .v = address_of(args.v),
                                  .o = address_of(args.o),
                                  .cu_seqlens_q = address_of(args.cu_seqlens_q),
                                  .cu_seqlens_k = address_of(args.cu_seqlens_k)}};
  if (args.causal != FOVEA_CAUSAL_FIRST) {
    return {call};
  }
  if (varlen) {
    fail("attention: FOVEA_CAUSAL_FIRST is not supported for sequences of different lengths");
  }
  const std::int64_t square = std::min(args.queries, args.keys);
  AttentionCall remaining_call = call;
  call.problem.queries = call.problem.keys = square;
  if (args.queries == square) {
    return {call};
  }
  const auto element_bytes = static_cast<std::int64_t>(size_of(call.problem.type));
  remaining_call.problem.queries = args.queries - square;
  remaining_call.problem.causal = false;
  remaining_call.operands.q += static_cast<Address>(square * args.q_strides.row * element_bytes);
  remaining_call.operands.o += static_cast<Address>(square * args.o_strides.row * element_bytes);
  return {call, remaining_call};
}

Call<ops::LinearProblem, ops::LinearOperands> operator_call(const fovea_linear_args& args) {
  constexpr std::string_view kName = "linear";
  require_memory(kName, {args.x, args.weight, args.output});
  const DType type = float_type(kName, args.type);
  return {
      .problem = checked_problem(kName, ops::LinearProblem{.rows = args.rows,
                                                           .in = args.in,
                                                           .out = args.out,
                                                           .epilogue = to_epilogue(args.epilogue),
                                                           .input = type,
                                                           .output = type}),
      .operands = {.input = address_of(args.x),
                   .weight = address_of(args.weight),
                   .bias = address_of(args.bias),
                   .output = address_of(args.output)}};
}

Call<ops::PatchEmbedProblem, ops::PatchEmbedOperands> operator_call(
    const fovea_patch_embed_args& args) {
  constexpr std::string_view kName = "patch_embed";
  require_memory(kName, {args.patches, args.weight, args.position, args.output});
  const DType type = float_type(kName, args.type);
  const bool has_byte_operands = args.patch_type == FOVEA_U8 && args.weight_type == FOVEA_I8 &&
                                 type == DType::kBF16 && args.scale != nullptr;
  const bool has_float_operands =
      args.patch_type == args.type && args.weight_type == args.type && args.scale == nullptr;
  if (!has_byte_operands && !has_float_operands) {
    fail(
        "patch_embed: all operands must be f16, all bf16 or all f32, or patches u8, "
        "weights i8 with a scale, and the rest bf16");
  }
  return {.problem = checked_problem(
              kName, ops::PatchEmbedProblem{.images = args.images,
                                            .tokens = args.tokens,
                                            .patch_elements = args.in,
                                            .hidden = args.out,
                                            .input = has_byte_operands ? DType::kU8 : type,
                                            .output = type}),
          .operands = {.patches = address_of(args.patches),
                       .weight = address_of(args.weight),
                       .scale = address_of(args.scale),
                       .position = address_of(args.position),
                       .output = address_of(args.output)}};
}

Call<ops::LayerNormProblem, ops::LayerNormOperands> operator_call(
    const fovea_layer_norm_args& args) {
  constexpr std::string_view kName = "layer_norm";
  require_memory(kName, {args.x, args.weight, args.bias, args.output});
  const DType type = float_type(kName, args.type);
  return {.problem = checked_problem(kName, ops::LayerNormProblem{.rows = args.rows,
                                                                  .width = args.width,
                                                                  .eps = args.eps,
                                                                  .input = type,
                                                                  .output = type}),
          .operands = {.input = address_of(args.x),
                       .weight = address_of(args.weight),
                       .bias = address_of(args.bias),
                       .output = address_of(args.output)}};
}

void check_place(const fovea_place& place) {
  if (place.device < -1) {
    fail("the device must be -1 (the host) or the number of a GPU, got {}", place.device);
  }
  if (place.device < 0 && place.threads < 1) {
    fail("the number of threads on the host must be at least 1, got {}", place.threads);
  }
}

/// Checks the pointers and the place, then calls `compute`.
template <typename Args, typename Compute>
fovea_status run(const Args* args, const fovea_place* place, const Compute& compute) {
  return guarded([&] {
    require_pointers({{args, "args"}, {place, "place"}});
    check_place(*place);
    const Activity activity;
    compute(*args, *place);
  });
}

gpu::CallerStream caller_stream(const fovea_place& place) {
  return {place.device, place.stream, send_note};
}

/// Runs an operator that consists of a single call, on the host or on a GPU.
template <typename Args>
fovea_status run(const Args* args, const fovea_place* place) {
  return run(args, place, [&](const Args& op_args, const fovea_place& op_place) {
    const auto [problem, operands] = operator_call(op_args);
    if (op_place.device < 0) {
      ops::run(problem, operands, cpu::HostThreads(op_place.threads));
    } else {
      gpu::CallerStream stream = caller_stream(op_place);
      ops::run(problem, operands, stream);
    }
  });
}

gpu::AttentionChoice choose_kernel(const AttentionCall& call, std::int32_t level,
                                   const gpu::CallerStream& stream) {
  return stream.planner().attention(call.problem, to_level(level));
}

gpu::Launch kernel_launch(const AttentionCall& call, const gpu::AttentionChoice& choice,
                          const gpu::CallerStream& stream) {
  return attention_launch(stream.device(), call.problem, call.operands, choice.plan);
}

void attention(const fovea_attention_args& args, const fovea_place& place) {
  const std::vector<AttentionCall> calls = attention_calls(args);
  if (place.device < 0) {
    static_cast<void>(to_level(args.level));
    if (args.level != FOVEA_LEVEL_AUTO) {
      fail("attention: levels select GPU kernels; on the CPU the level must be auto");
    }
    for (const auto& [problem, operands] : calls) {
      ops::run(problem, operands, cpu::HostThreads(place.threads));
    }
    return;
  }
  for (const AttentionCall& call : calls) {
    const gpu::CallerStream stream = caller_stream(place);
    const gpu::AttentionChoice choice = choose_kernel(call, args.level, stream);
    stream.note(choice.notice);
    stream.launch(kernel_launch(call, choice, stream));
  }
}

/// Returns the kernel that would be used. Throws when there is none.
fovea_attention_choice choose_attention(const fovea_attention_args& args,
                                        const fovea_place& place) {
  const AttentionCall call = attention_calls(args).front();
  if (place.device < 0) {
    fail("attention: kernels can be chosen on a GPU only, not on the CPU");
  }
  const gpu::CallerStream stream = caller_stream(place);
  const gpu::AttentionChoice kernel_choice = choose_kernel(call, args.level, stream);
  const gpu::Launch launch = kernel_launch(call, kernel_choice, stream);
  fovea_attention_choice choice{};
  choice.level = to_string(gpu::plan_level(kernel_choice.plan)).data();  // NUL-terminated
  const std::string_view kernel = info_of(launch.kernel).name;
  if (kernel.size() >= sizeof(choice.kernel)) {
    fail("the name of kernel {} is too long", kernel);
  }
  kernel.copy(choice.kernel, kernel.size());
  choice.threads = static_cast<std::int32_t>(launch.config.block.x);
  choice.shared_bytes = static_cast<std::int64_t>(launch.config.dynamic_shared_bytes);
  return choice;
}

}  // namespace
}  // namespace fovea::c

using namespace fovea;  // NOLINT(google-build-using-namespace): only C functions follow

fovea_status fovea_attention(const fovea_attention_args* args, const fovea_place* place) {
  return c::run(args, place, c::attention);
}

fovea_status fovea_linear(const fovea_linear_args* args, const fovea_place* place) {
  return c::run(args, place);
}

fovea_status fovea_patch_embed(const fovea_patch_embed_args* args, const fovea_place* place) {
  return c::run(args, place);
}

fovea_status fovea_layer_norm(const fovea_layer_norm_args* args, const fovea_place* place) {
  return c::run(args, place);
}

fovea_status fovea_attention_choose(const fovea_attention_args* args, const fovea_place* place,
                                    fovea_attention_choice* choice) {
  return c::run(args, place, [=](const fovea_attention_args& op_args, const fovea_place& op_place) {
    c::require_pointer(choice, "choice");
    *choice = c::choose_attention(op_args, op_place);
  });
}
