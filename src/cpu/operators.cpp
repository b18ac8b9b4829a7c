// Attention by blocks of queries, linear by oneDNN's own threads, LayerNorm by blocks of rows.
#include "cpu/operators.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <unistd.h>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "cpu/isa.hpp"
#include "cpu/matmul.hpp"
#include "cpu/row_kernels.hpp"
#include "cpu/single_thread.hpp"

namespace fovea::cpu {
namespace {

/// Products are made once a shape and kept; a program whose shapes never repeat starts anew here.
constexpr std::size_t kMostShapes = 4096;
/// Queries of a head that are worked on at once: their scores stay in the nearest caches.
constexpr std::int64_t kQueryBlock = 64;
constexpr std::int64_t kRowBlock = 32;         // of LayerNorm
constexpr std::int64_t kWidenBlock = 1 << 16;  // elements
constexpr std::int64_t kFloatsInLine = kBufferAlignment / sizeof(float);

const std::byte* at(const void* base, std::int64_t element, DType type) {
  return static_cast<const std::byte*>(base) + element * static_cast<std::int64_t>(size_of(type));
}
std::byte* at(void* base, std::int64_t element, DType type) {
  return static_cast<std::byte*>(base) + element * static_cast<std::int64_t>(size_of(type));
}

/// What products compute in: bf16 stays where the CPU multiplies it, all else is widened.
DType product_type(DType type) {
  return type == DType::kBF16 && has_bf16() ? DType::kBF16 : DType::kF32;
}

/// Products made for this many threads of oneDNN's.
std::shared_ptr<MatmulCache> shared_cache(int threads) {
  static std::mutex mutex;
  static std::map<int, std::shared_ptr<MatmulCache>> caches;
  const std::lock_guard lock(mutex);
  std::shared_ptr<MatmulCache>& cache = caches[threads];
  if (!cache || cache->size() > kMostShapes) {
    cache = std::make_shared<MatmulCache>();
  }
  return cache;
}

/// What a thread calls products with, and its scratch.
struct Workplace {
  std::shared_ptr<MatmulCache> cache;
  std::unique_ptr<MatmulCaller> caller;
  AlignedBuffer<float> scores;
  AlignedBuffer<float> wide[4];  // q, k, v, o

  MatmulCaller& calls(int threads) {
    std::shared_ptr<MatmulCache> current = shared_cache(threads);
    if (current != cache) {
      caller.reset();
      cache = std::move(current);
      caller = std::make_unique<MatmulCaller>(*cache);
    }
    return *caller;
  }
};

float* grown(AlignedBuffer<float>& buffer, std::int64_t count) {
  if (buffer.size() < static_cast<std::size_t>(count)) {
    buffer = AlignedBuffer<float>(static_cast<std::size_t>(count));
  }
  return buffer.data();
}

/// oneDNN's settings before its first use; then a thread's own place, one for products that it
/// computes alone and one for products that share oneDNN's threads.
Workplace& workplace(bool alone) {
  limit_isa_from_environment();
  thread_local Workplace places[2];
  return places[alone ? 1 : 0];
}

/// Threads that operators of this process share. A forked child has none of its parent's threads,
/// so it makes its own; the parent's pool cannot be torn down there.
ThreadPool& pool(int threads) {
  static std::mutex mutex;
  static std::map<std::pair<pid_t, int>, ThreadPool*> pools;
  const std::lock_guard lock(mutex);
  ThreadPool*& made = pools[{getpid(), threads}];
  if (made == nullptr) {
    made = new ThreadPool(threads);  // NOLINT: lives as long as the process
  }
  return *made;
}

template <typename Body>
void share(std::int64_t count, int threads, const Body& body) {
  const auto most = static_cast<int>(std::min<std::int64_t>(count, threads));
  if (most <= 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  pool(threads).parallel_for(static_cast<std::size_t>(count), [&](std::size_t index, int) {
    body(static_cast<std::int64_t>(index));
  });
}

/// to[i] = from[i] * scale, as float32.
void widen(const void* from, DType type, std::int64_t count, float scale, float* to) {
  const auto copy = [&]<typename T>(const T* values) {
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
        to[i] = to_float(values[i]) * scale;
      } else {
        to[i] = static_cast<float>(values[i]) * scale;
      }
    }
  };
  switch (type) {
    case DType::kF32:
      return copy(static_cast<const float*>(from));
    case DType::kBF16:
      return copy(static_cast<const BFloat16*>(from));
    case DType::kF16:
      return copy(static_cast<const Float16*>(from));
    case DType::kU8:
      return copy(static_cast<const std::uint8_t*>(from));
    case DType::kI8:
      return copy(static_cast<const std::int8_t*>(from));
    default:
      fail("operators on the CPU do not take {}", to_string(type));
  }
}

/// to[i] = from[i], rounded to nearest even.
void narrow(const float* from, std::int64_t count, DType type, void* to) {
  switch (type) {
    case DType::kF32:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::kBF16:
      std::transform(from, from + count, static_cast<BFloat16*>(to), to_bfloat16);
      return;
    case DType::kF16:
      std::transform(from, from + count, static_cast<Float16*>(to), to_float16);
      return;
    default:
      fail("operators on the CPU do not make {}", to_string(type));
  }
}

/// A matrix whose rows lie `stride` elements apart.
struct Rows {
  const void* data = nullptr;
  std::int64_t stride = 0;
};

/// Some queries of one head, against the first `keys` of its keys.
struct Block {
  const AttentionArgs& args;
  const Sequence& sequence;
  std::int64_t head = 0;
  std::int64_t first = 0;    // query
  std::int64_t queries = 0;  // from there on
  std::int64_t keys = 0;

  /// Keys that a query of this block sees.
  [[nodiscard]] std::int64_t width(std::int64_t query) const {
    if (args.causal == Causal::kNone) {
      return keys;
    }
    const std::int64_t diagonal =
        args.causal == Causal::kLast ? sequence.keys - sequence.queries : 0;
    return std::clamp<std::int64_t>(first + query + diagonal + 1, 0, keys);
  }

  /// Rows of an operand as products take them: in place, or widened into `buffer`.
  [[nodiscard]] Rows rows(const void* base, std::int64_t offset, std::int64_t stride,
                          std::int64_t count, AlignedBuffer<float>& buffer) const {
    if (product_type(args.type) == args.type) {
      return {.data = at(base, offset, args.type), .stride = stride};
    }
    float* const wide = grown(buffer, count * args.head_dim);
    for (std::int64_t row = 0; row < count; ++row) {
      widen(at(base, offset + row * stride, args.type), args.type, args.head_dim, 1.0F,
            wide + row * args.head_dim);
    }
    return {.data = wide, .stride = args.head_dim};
  }
};

/// softmax of each row over the keys that it sees; zeros beyond.
void block_softmax(const Block& block, DType type, float* scores, std::int64_t stride) {
  SoftmaxArgs args{.scores = scores,
                   .output_type = type,
                   .rows = block.queries,
                   .width = block.keys,
                   .stride = stride,
                   .scale = static_cast<float>(block.args.scale)};
  if (block.width(0) == block.keys) {
    softmax(args);
    return;
  }
  args.rows = 1;
  for (std::int64_t query = 0; query < block.queries; ++query) {
    args.scores = scores + query * stride;
    args.width = block.width(query);
    if (args.width > 0) {
      softmax(args);
    }
    std::memset(at(static_cast<void*>(args.scores), args.width, type), 0,
                static_cast<std::size_t>(block.keys - args.width) * size_of(type));
  }
}

void attend(const Block& block, Workplace& place) {
  const AttentionArgs& args = block.args;
  const Sequence& sequence = block.sequence;
  const std::int64_t dim = args.head_dim;
  const std::int64_t kv_head = block.head * args.kv_heads / args.heads;
  const std::int64_t o =
      sequence.o + block.head * args.o_strides.head + block.first * args.o_strides.row;
  if (block.keys == 0) {
    for (std::int64_t query = 0; query < block.queries; ++query) {
      std::memset(at(args.o, o + query * args.o_strides.row, args.type), 0,
                  static_cast<std::size_t>(dim) * size_of(args.type));
    }
    return;
  }
  const DType type = product_type(args.type);
  const Rows q = block.rows(
      args.q, sequence.q + block.head * args.q_strides.head + block.first * args.q_strides.row,
      args.q_strides.row, block.queries, place.wide[0]);
  const Rows k = block.rows(args.k, sequence.k + kv_head * args.k_strides.head, args.k_strides.row,
                            block.keys, place.wide[1]);
  const Rows v = block.rows(args.v, sequence.v + kv_head * args.v_strides.head, args.v_strides.row,
                            block.keys, place.wide[2]);
  const std::int64_t stride = divide_up(block.keys, kFloatsInLine) * kFloatsInLine;
  float* const scores = grown(place.scores, block.queries * stride);
  MatmulCaller& caller = place.calls(1);

  MatmulShape score;
  score.rows = block.queries;
  score.in = dim;
  score.out = block.keys;
  score.input_stride = q.stride;
  score.output_stride = stride;
  score.b_row_stride = 1;
  score.b_column_stride = k.stride;
  score.input = type;
  caller.call(score, q.data, k.data, scores);

  block_softmax(block, type, scores, stride);

  const bool direct = type == args.type;
  MatmulShape mix;
  mix.rows = block.queries;
  mix.in = block.keys;
  mix.out = dim;
  mix.input_stride = type == DType::kBF16 ? 2 * stride : stride;
  mix.output_stride = direct ? args.o_strides.row : dim;
  mix.b_row_stride = v.stride;
  mix.b_column_stride = 1;
  mix.input = type;
  mix.output = type;
  if (direct) {
    caller.call(mix, scores, v.data, at(args.o, o, args.type));
    return;
  }
  float* const wide = grown(place.wide[3], block.queries * dim);
  caller.call(mix, scores, v.data, wide);
  for (std::int64_t query = 0; query < block.queries; ++query) {
    narrow(wide + query * dim, dim, args.type,
           at(args.o, o + query * args.o_strides.row, args.type));
  }
}

/// The whole operand as products take it: as it is, or widened.
const void* as_product(const void* data, DType from, DType to, std::int64_t count, int threads,
                       AlignedBuffer<float>& buffer) {
  if (from == to) {
    return data;
  }
  float* const wide = grown(buffer, count);
  share(divide_up(count, kWidenBlock), threads, [&](std::int64_t index) {
    const std::int64_t first = index * kWidenBlock;
    widen(at(data, first, from), from, std::min(kWidenBlock, count - first), 1.0F, wide + first);
  });
  return wide;
}

}  // namespace

void attention(const AttentionArgs& args, int threads) {
  // Blocks of all sequences are numbered through, for the threads to take.
  std::vector<std::int64_t> first_block{0};
  for (const Sequence& sequence : args.sequences) {
    first_block.push_back(first_block.back() + divide_up(sequence.queries, kQueryBlock));
  }
  share(first_block.back() * args.heads, threads, [&](std::int64_t index) {
    const SingleThread single;
    const std::int64_t number = index / args.heads;
    const auto next = std::ranges::upper_bound(first_block, number);
    const auto place = static_cast<std::size_t>(next - first_block.begin() - 1);
    const Sequence& sequence = args.sequences[place];
    Block block{.args = args, .sequence = sequence, .head = index % args.heads};
    block.first = (number - first_block[place]) * kQueryBlock;
    block.queries = std::min(kQueryBlock, sequence.queries - block.first);
    block.keys = sequence.keys;
    block.keys = block.width(block.queries - 1);  // of the query that sees most
    attend(block, workplace(true));
  });
}

void linear(const LinearArgs& args, int threads) {
  Workplace& place = workplace(false);
  const bool bytes = args.weight_type == DType::kI8;
  const DType type = bytes ? DType::kF32 : product_type(args.type);
  const std::int64_t count = args.rows * args.out;
  const void* const x =
      as_product(args.x, args.x_type, type, args.rows * args.in, threads, place.wide[0]);
  const void* weight = nullptr;
  if (bytes) {
    float* const scaled = grown(place.wide[1], args.out * args.in);
    for (std::int64_t o = 0; o < args.out; ++o) {
      widen(at(args.weight, o * args.in, args.weight_type), args.weight_type, args.in,
            args.scale[o], scaled + o * args.in);
    }
    weight = scaled;
  } else {
    weight =
        as_product(args.weight, args.weight_type, type, args.out * args.in, threads, place.wide[1]);
  }
  const bool direct = type == args.type;
  void* output = args.output;
  if (!direct) {
    output = grown(place.wide[2], count);
    if (args.epilogue == ops::Epilogue::kResidual) {
      widen(args.output, args.type, count, 1.0F, static_cast<float*>(output));
    }
  }

  MatmulShape shape;
  shape.rows = args.rows;
  shape.in = args.in;
  shape.out = args.out;
  shape.input_stride = args.in;
  shape.output_stride = args.out;
  shape.b_row_stride = 1;
  shape.b_column_stride = args.in;
  shape.epilogue = args.epilogue;
  shape.input = type;
  shape.output = type;
  const OneDnnThreads team(threads);
  place.calls(threads).call(shape, x, weight, output, args.bias);
  if (!direct) {
    narrow(static_cast<const float*>(output), count, args.type, args.output);
  }
}

void patch_embed(const LinearArgs& args, const void* position, std::int64_t tokens, int threads) {
  const std::size_t bytes = static_cast<std::size_t>(tokens * args.out) * size_of(args.type);
  share(args.rows / tokens, threads, [&](std::int64_t image) {
    std::memcpy(at(args.output, image * tokens * args.out, args.type), position, bytes);
  });
  LinearArgs added = args;
  added.epilogue = ops::Epilogue::kResidual;
  linear(added, threads);
}

void layer_norm(const NormArgs& args, int threads) {
  share(divide_up(args.rows, kRowBlock), threads, [&](std::int64_t index) {
    const std::int64_t first = index * kRowBlock;
    const std::int64_t rows = std::min(kRowBlock, args.rows - first);
    const std::int64_t count = rows * args.width;
    Workplace& place = workplace(true);
    LayerNormArgs norm{.input = static_cast<const float*>(args.x) + first * args.width,
                       .output = at(args.output, first * args.width, args.type),
                       .output_type = args.type,
                       .weight = args.weight,
                       .bias = args.bias,
                       .rows = rows,
                       .width = args.width,
                       .eps = static_cast<float>(args.eps)};
    if (args.type != DType::kF32) {
      float* const wide = grown(place.wide[0], count);
      widen(at(args.x, first * args.width, args.type), args.type, count, 1.0F, wide);
      norm.input = wide;
    }
    if (args.type == DType::kF16) {
      norm.output = grown(place.wide[1], count);
      norm.output_type = DType::kF32;
    }
    layer_norm(norm);
    if (args.type == DType::kF16) {
      narrow(place.wide[1].data(), count, args.type,
             at(args.output, first * args.width, args.type));
    }
  });
}

}  // namespace fovea::cpu
