// CpuExecutor: the operators as one thread of a team runs them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cpu/product.hpp"
#include "cpu/team.hpp"
#include "cpu/worker.hpp"
#include "ops/backend.hpp"

namespace fovea::cpu {

struct NormParameters;

class CpuExecutor : public ops::Executor {
 public:
  /// Each operator throws Interrupted when `stop` is set.
  CpuExecutor(Team& team, int rank, Worker& worker, StopFlag stop)
      : team_(team), rank_(rank), worker_(worker), stop_(stop) {}

 private:
  void do_patch_embed(const ops::PatchEmbedProblem& problem, const ops::Prepared& weights,
                      const ConstTensorView& patches, const TensorView& tokens,
                      const ops::ImageShapes& shapes) override;
  void do_layer_norm(const ops::LayerNormProblem& problem, const ops::Prepared& weights,
                     const ConstTensorView& input, const TensorView& output,
                     const TensorView& row_scales) override;
  void do_linear(const ops::LinearProblem& problem, const ops::Prepared& weights,
                 const ConstTensorView& input, const TensorView& output,
                 const ConstTensorView& row_scales) override;
  void do_attention(const ops::AttentionProblem& problem,
                    const ops::AttentionOperands& operands) override;
  void do_pool(const ops::PoolProblem& problem, const ops::Prepared& weights,
               const ConstTensorView& input, const TensorView& output,
               const ops::ImageShapes& shapes) override;
  void do_project(const ops::ProjectProblem& problem, const ops::Prepared& weights,
                  const ConstTensorView& input, const TensorView& output) override;
  void do_copy(const ConstTensorView& input, const TensorView& output) override;
  void do_convert(const ConstTensorView& input, const TensorView& output) override;

  class Timer;

  template <typename Task>
  void share(std::int64_t count, const Task& task) {
    team_.for_each(rank_, phase_, count, task);
  }
  /// Calls task(first, count) for blocks of rows.
  template <typename Task>
  void share_rows(std::int64_t rows, const Task& task);

  /// The layer norm of single rows, whose neighbours are `input_stride` and `output_stride` apart.
  void norm_rows(const NormParameters& norm, double eps, std::int64_t rows, const float* input,
                 std::int64_t input_stride, float* output, std::int64_t output_stride);

  /// Rows [first, first + rows) of the position tables of images of different sizes.
  static void resize_positions(const ops::PatchEmbedProblem& problem, std::span<const float> table,
                               const ops::ImageShapes& shapes, std::int64_t first,
                               std::int64_t rows, float* output);

  /// A buffer of the team, of at least `count`: the same for every thread.
  template <typename T>
  T* shared(PageBuffer& buffer, std::int64_t count);

  /// All of a product, by the threads of the team.
  void multiply(const Product& product);

  Team& team_;
  int rank_;
  Worker& worker_;
  StopFlag stop_;
  unsigned phase_ = 0;
};

/// Prepared weights of the operators that are no plain linear layer.
struct NormParameters : public ops::Prepared {
  AlignedBuffer<float> weight;
  AlignedBuffer<float> bias;

  explicit NormParameters(const ops::LayerNormWeights& weights);
};

struct PatchEmbedParameters : public ops::Prepared {
  std::unique_ptr<PackedWeights> projection;  // of centered pixels, or of pixels in 8 bits
  AlignedBuffer<float> position;
  AlignedBuffer<float> prefix;
};

struct ProjectParameters : public ops::Prepared {
  std::unique_ptr<NormParameters> norm;
  std::unique_ptr<PackedWeights> linear;  // f32; null without a projection
};

struct PoolParameters : public ops::Prepared {
  AlignedBuffer<float> keys;
  std::vector<std::unique_ptr<PackedWeights>> values;  // one a head
  std::unique_ptr<PackedWeights> out;
  std::unique_ptr<NormParameters> norm;
  std::unique_ptr<PackedWeights> fc1;
  std::unique_ptr<PackedWeights> fc2;
};

}  // namespace fovea::cpu
