// The C operators: what is asked is checked here, and done on the host or on a GPU.
#include "fovea/c/operators.h"

#include <cmath>
#include <initializer_list>
#include <string_view>

#include "c/lifetime.hpp"
#include "c/operator_types.hpp"
#include "c/operators_gpu.hpp"
#include "c/operators_host.hpp"
#include "c/status.hpp"
#include "gpu/launch/attention.hpp"

namespace fovea::c {
namespace {

void require(bool holds, std::string_view what) {
  if (!holds) {
    throw Error(std::string(what));
  }
}

void require_sizes(std::string_view name, std::initializer_list<std::int64_t> sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (const std::int64_t size : sizes) {
    if (size < 1 || size >= kMost) {
      fail("{}: a size of {} is not between 1 and 2^31", name, size);
    }
  }
}

void require_memory(std::string_view name, std::initializer_list<const void*> operands) {
  for (const void* const operand : operands) {
    if (operand == nullptr) {
      fail("{}: an operand has no memory", name);
    }
  }
}

bool is_float(std::int32_t type) {
  return type == FOVEA_F16 || type == FOVEA_BF16 || type == FOVEA_F32;
}

void check(const fovea_attention_args& args) {
  require_sizes("attention",
                {args.batch, args.heads, args.kv_heads, args.queries, args.keys, args.head_dim});
  require_memory("attention", {args.q, args.k, args.v, args.o});
  if (args.heads % args.kv_heads != 0) {
    fail("attention: {} heads are no multiple of {} heads of keys", args.heads, args.kv_heads);
  }
  require(std::isfinite(args.scale) && args.scale > 0,
          "attention: the scale is not positive and finite");
  require(is_float(args.type), "attention: operands are f16, bf16 or f32");
  require(args.causal >= FOVEA_CAUSAL_NONE && args.causal <= FOVEA_CAUSAL_LAST,
          "attention: an unknown mask");
  require((args.cu_seqlens_q == nullptr) == (args.cu_seqlens_k == nullptr),
          "attention: offsets are given for both queries and keys, or for neither");
  if (args.level == FOVEA_LEVEL_AUTO) {
    // Nothing is forced on the host, but a name of no level is a mistake there too.
    static_cast<void>(gpu::forced_attention_level());
  }
}

void check(const fovea_linear_args& args) {
  require_sizes("linear", {args.rows, args.in, args.out});
  require_memory("linear", {args.x, args.weight, args.output});
  require(is_float(args.type), "linear: operands are f16, bf16 or f32");
}

void check(const fovea_patch_embed_args& args) {
  require_sizes("patch_embed", {args.images, args.tokens, args.in, args.out});
  require_sizes("patch_embed", {args.images * args.tokens});
  require_memory("patch_embed", {args.patches, args.weight, args.position, args.output});
  const bool bytes = args.patch_type == FOVEA_U8 && args.weight_type == FOVEA_I8 &&
                     args.type == FOVEA_BF16 && args.scale != nullptr;
  const bool floats = is_float(args.type) && args.patch_type == args.type &&
                      args.weight_type == args.type && args.scale == nullptr;
  require(bytes || floats,
          "patch_embed: all operands are of one type of f16, bf16 and f32, or patches are u8, "
          "weights i8 with a scale, and the rest bf16");
}

void check(const fovea_layer_norm_args& args) {
  require_sizes("layer_norm", {args.rows, args.width});
  require_memory("layer_norm", {args.x, args.weight, args.bias, args.output});
  require(is_float(args.type), "layer_norm: operands are f16, bf16 or f32");
  require(args.eps >= 0, "layer_norm: eps is negative");
}

void check(const fovea_place& place) {
  require(place.device >= -1, "an operator's place is -1, the host, or the number of a GPU");
  require(place.device >= 0 || place.threads >= 1, "on the host at least one thread computes");
}

template <typename Args>
fovea_status run(const Args* args, const fovea_place* place, void (*host)(const Args&, int),
                 void (*gpu)(const Args&, const fovea_place&)) {
  return guarded([&] {
    require_pointer(args, "args");
    require_pointer(place, "place");
    check(*place);
    check(*args);
    const Activity activity;
    if (place->device < 0) {
      host(*args, place->threads);
    } else {
      gpu(*args, *place);
    }
  });
}

}  // namespace
}  // namespace fovea::c

fovea_status fovea_attention(const fovea_attention_args* args, const fovea_place* place) {
  return fovea::c::run(args, place, fovea::c::attention_on_host, fovea::c::attention_on_gpu);
}

fovea_status fovea_linear(const fovea_linear_args* args, const fovea_place* place) {
  return fovea::c::run(args, place, fovea::c::linear_on_host, fovea::c::linear_on_gpu);
}

fovea_status fovea_patch_embed(const fovea_patch_embed_args* args, const fovea_place* place) {
  return fovea::c::run(args, place, fovea::c::patch_embed_on_host, fovea::c::patch_embed_on_gpu);
}

fovea_status fovea_layer_norm(const fovea_layer_norm_args* args, const fovea_place* place) {
  return fovea::c::run(args, place, fovea::c::layer_norm_on_host, fovea::c::layer_norm_on_gpu);
}

fovea_status fovea_attention_choose(const fovea_attention_args* args, const fovea_place* place,
                                    fovea_attention_choice* choice) {
  return fovea::c::guarded([&] {
    fovea::c::require_pointer(args, "args");
    fovea::c::require_pointer(place, "place");
    fovea::c::require_pointer(choice, "choice");
    fovea::c::check(*place);
    fovea::c::check(*args);
    fovea::c::require(place->device >= 0, "attention has kernels to choose from on GPUs only");
    *choice = fovea::c::choose_on_gpu(*args, *place);
  });
}
