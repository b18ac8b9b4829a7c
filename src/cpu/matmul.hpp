// Matrix products on oneDNN: packed weights, and primitives made once a shape.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include <oneapi/dnnl/dnnl.hpp>

#include "core/buffer.hpp"
#include "core/dtype.hpp"
#include "cpu/page_buffer.hpp"
#include "ops/problem.hpp"
#include "ops/weights.hpp"

namespace fovea::cpu {

/// What a primitive computes: output [rows, out] = epilogue(input [rows, in] x B [in, out]).
/// Strides are in elements; B is packed weights (or a block of their columns), or any matrix.
struct MatmulShape {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t input_stride = 0;
  std::int64_t output_stride = 0;
  std::int64_t b_row_stride = 0;  // 0: packed
  std::int64_t b_column_stride = 0;
  std::int64_t packed_out = 0;  // columns of the whole packed matrix
  bool bias = false;
  ops::Epilogue epilogue = ops::Epilogue::kNone;
  DType input = DType::kF32;
  DType output = DType::kF32;

  friend auto operator<=>(const MatmulShape&, const MatmulShape&) = default;
};

/// A primitive with what is needed to call it.
struct Matmul {
  dnnl::primitive primitive;
  dnnl::memory::desc input;
  dnnl::memory::desc b;
  dnnl::memory::desc output;
  dnnl::memory::desc bias;
  dnnl::memory::desc scratchpad;
};

class PackedWeights;

/// Makes and keeps primitives; shared by all threads.
class MatmulCache {
 public:
  MatmulCache();

  [[nodiscard]] const dnnl::engine& engine() const { return engine_; }

  /// How many shapes have been asked for.
  [[nodiscard]] std::size_t size() const;

  /// The same object for the same shape, until the cache goes. Threads call this after
  /// omp_set_num_threads(1): a primitive is made for as many threads as it finds.
  const Matmul& get(const MatmulShape& shape);

  /// The layout that oneDNN wants for weights [in, out].
  [[nodiscard]] dnnl::memory::desc packed_layout(std::int64_t in, std::int64_t out,
                                                 DType type) const;

 private:
  [[nodiscard]] std::unique_ptr<const Matmul> make(const MatmulShape& shape) const;

  dnnl::engine engine_;
  bool convolves_;  // with packed weights
  mutable std::shared_mutex mutex_;
  std::map<MatmulShape, std::unique_ptr<const Matmul>> made_;
};

/// Weights and bias of a linear layer in oneDNN's layout.
class PackedWeights : public ops::Prepared {
 public:
  PackedWeights(const MatmulCache& cache, const ops::LinearWeights& weights, DType type);

  [[nodiscard]] std::int64_t in() const { return in_; }
  [[nodiscard]] std::int64_t out() const { return out_; }
  [[nodiscard]] DType type() const { return type_; }
  [[nodiscard]] const float* bias() const { return bias_.data(); }

  /// Columns [first, first + columns) of the packed matrix; `layout` is the primitive's.
  /// `first` is a multiple of the layout's block of columns.
  [[nodiscard]] const dnnl::memory& columns(std::int64_t first, std::int64_t columns,
                                            const dnnl::memory::desc& layout) const;

 private:
  std::int64_t in_;
  std::int64_t out_;
  DType type_;
  PageBuffer memory_;
  AlignedBuffer<float> bias_;
  dnnl::memory whole_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::int64_t, std::int64_t>, dnnl::memory> blocks_;
};

/// One thread's way to call primitives: its stream, scratchpad and argument objects.
class MatmulCaller {
 public:
  explicit MatmulCaller(MatmulCache& cache) : cache_(cache), stream_(cache.engine()) {}

  /// output = epilogue(input x weights[:, first, first + shape.out] + bias), dense matrices. A row
  /// has the same bits whatever the other rows are and however many.
  void call(MatmulShape shape, const PackedWeights& weights, std::int64_t first, const void* input,
            void* output);
  /// The same with any matrix for B, and with a bias [out] unless it is null.
  void call(MatmulShape shape, const void* input, const void* b, void* output,
            const float* bias = nullptr);

 private:
  struct Arguments {
    dnnl::memory input;
    dnnl::memory b;
    dnnl::memory output;
    dnnl::memory bias;
    dnnl::memory scratchpad;
  };
  Arguments& arguments(const Matmul& matmul);
  void execute(const Matmul& matmul, const Arguments& arguments, const dnnl::memory& b, bool bias);

  MatmulCache& cache_;
  dnnl::stream stream_;
  AlignedBuffer<std::byte> scratchpad_;
  std::unordered_map<const Matmul*, Arguments> arguments_;
};

}  // namespace fovea::cpu
