/* Fovea's operators: they take plain structs of addresses, strides and types, so that any framework
 * can call them on memory and streams of its own.
 *
 * On a GPU a call puts the work into the stream and returns at once: memory must stay valid until
 * the stream has completed the work. The stream may be in capture into a graph. On the host a call
 * returns when the result is complete. Functions may be called from any thread. They fail, with the
 * reason, when types, shapes, strides or alignments are not supported. */
#ifndef FOVEA_C_OPERATORS_H
#define FOVEA_C_OPERATORS_H

#include <stdint.h>

#include "fovea/c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fovea_type {
  FOVEA_U8 = 0,
  FOVEA_I8 = 1,
  FOVEA_F16 = 3,
  FOVEA_BF16 = 4,
  FOVEA_F32 = 5,
} fovea_type;

/* The device of the operands, and what computes on it. */
typedef struct fovea_place {
  int32_t device;  /* CUDA's number of the GPU; -1: the host */
  int32_t threads; /* on the host: compute threads, at least 1 */
  void* stream;    /* on a GPU: the CUstream (cudaStream_t) into which the work is put */
} fovea_place;

typedef enum fovea_causal {
  FOVEA_CAUSAL_NONE = 0,
  FOVEA_CAUSAL_FIRST = 1, /* query i sees keys 0 .. i: the first query and key meet. Not for
                             sequences of different lengths */
  FOVEA_CAUSAL_LAST = 2,  /* query i sees keys 0 .. i + keys - queries: the last ones meet */
} fovea_causal;

/* Levels of attention on GPUs. AUTO chooses the fastest; the others force one, for tests and
 * comparisons. */
typedef enum fovea_level {
  FOVEA_LEVEL_AUTO = 0,
  FOVEA_LEVEL_SCALAR = 1,
  FOVEA_LEVEL_WMMA = 2,
  FOVEA_LEVEL_MMA = 3,
  FOVEA_LEVEL_WGMMA = 4,
} fovea_level;

/* Strides in elements: element (b, h, n, d) lies at b * batch + h * head + n * row + d. */
typedef struct fovea_strides {
  int64_t batch;
  int64_t head;
  int64_t row;
} fovea_strides;

/* o = softmax(scale * q k^T) v for each batch and head.
 *   q, o (batch, heads, queries, head_dim); k, v (batch, kv_heads, keys, head_dim)
 * heads is a multiple of kv_heads; head h reads k and v of head h * kv_heads / heads.
 * Packed sequences of different lengths lie one after the other along the rows: batch is then their
 * number, cu_seqlens_q and cu_seqlens_k hold batch + 1 offsets (int32, on the operands' device),
 * queries and keys are the largest lengths, and strides.batch is unused. Queries that see no key
 * get zeros. Types: bf16 and f16; on the host also f32. On a GPU head_dim is a multiple of 8 up to
 * 128, strides are multiples of 8, addresses are multiples of 16 bytes, and offsets are not
 * checked. Strides of q, k and v may be 0 (expanded tensors), which the level wgmma does not
 * support. */
typedef struct fovea_attention_args {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  fovea_strides q_strides;
  fovea_strides k_strides;
  fovea_strides v_strides;
  fovea_strides o_strides;
  int64_t batch;
  int64_t heads;
  int64_t kv_heads;
  int64_t queries;
  int64_t keys;
  int64_t head_dim;
  double scale;                /* positive */
  int32_t causal;              /* fovea_causal */
  int32_t type;                /* fovea_type of all four */
  int32_t level;               /* fovea_level */
  const int32_t* cu_seqlens_q; /* (batch + 1), or null */
  const int32_t* cu_seqlens_k; /* (batch + 1), or null */
} fovea_attention_args;

FOVEA_API fovea_status fovea_attention(const fovea_attention_args* args, const fovea_place* place);

/* The kernel that runs a problem on a GPU. */
typedef struct fovea_attention_choice {
  const char* level;    /* "mma"; lives as long as the library */
  char kernel[64];      /* as in fovea/c/kernels.h */
  int32_t threads;      /* per CTA */
  int64_t shared_bytes; /* dynamic shared memory per CTA */
} fovea_attention_choice;

/* Fails with the reason when no kernel of the level runs the problem on that GPU. */
FOVEA_API fovea_status fovea_attention_choose(const fovea_attention_args* args,
                                              const fovea_place* place,
                                              fovea_attention_choice* choice);

typedef enum fovea_epilogue {
  FOVEA_EPILOGUE_NONE = 0,
  FOVEA_EPILOGUE_GELU = 1,     /* tanh approximation */
  FOVEA_EPILOGUE_RESIDUAL = 2, /* adds the result to the values in output */
} fovea_epilogue;

/* output (rows, out) = epilogue(x (rows, in) weight (out, in)^T + bias), all dense.
 * Types: bf16; on the host also f16 and f32. bias is f32 (out), or null. */
typedef struct fovea_linear_args {
  const void* x;
  const void* weight;
  const float* bias;
  void* output;
  int64_t rows;
  int64_t in;
  int64_t out;
  int32_t type;     /* fovea_type of x, weight and output */
  int32_t epilogue; /* fovea_epilogue */
} fovea_linear_args;

FOVEA_API fovea_status fovea_linear(const fovea_linear_args* args, const fovea_place* place);

/* output (images * tokens, out) = scale * (patches (images * tokens, in) weight (out, in)^T)
 *                                 + position (tokens, out), all dense.
 * Either patches, weight, position and output have one of the types of fovea_linear, and scale is
 * null; or patches are u8, weight is i8, scale is f32 (out), and position and output are bf16. */
typedef struct fovea_patch_embed_args {
  const void* patches;
  const void* weight;
  const void* position;
  const float* scale;
  void* output;
  int64_t images;
  int64_t tokens;
  int64_t in;
  int64_t out;
  int32_t patch_type;
  int32_t weight_type;
  int32_t type; /* of position and output */
} fovea_patch_embed_args;

FOVEA_API fovea_status fovea_patch_embed(const fovea_patch_embed_args* args,
                                         const fovea_place* place);

/* output (rows, width) = (x - mean) / sqrt(variance + eps) * weight + bias over each row, dense.
 * Types of x and output: bf16 and f32; on the host also f16. weight and bias are f32 (width). */
typedef struct fovea_layer_norm_args {
  const void* x;
  const float* weight;
  const float* bias;
  void* output;
  int64_t rows;
  int64_t width;
  double eps;
  int32_t type; /* of x and output */
} fovea_layer_norm_args;

FOVEA_API fovea_status fovea_layer_norm(const fovea_layer_norm_args* args,
                                        const fovea_place* place);

#ifdef __cplusplus
}
#endif

#endif
