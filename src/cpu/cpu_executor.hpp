// CpuExecutor: runs operators as one thread of a team, and provides the building blocks of
// operators on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/divide_up.hpp"
#include "core/stop.hpp"
#include "cpu/product.hpp"
#include "cpu/team.hpp"
#include "cpu/worker.hpp"
#include "ops/backend.hpp"

namespace fovea::cpu {

/// The tensor types of a backend; operators pack their weights for these.
struct CpuTypes : ops::TensorTypes {};

/// Prepared weights of a layer norm, which is an operator or a part of another one.
struct NormParameters : public ops::Prepared {
  AlignedBuffer<float> weight;
  AlignedBuffer<float> bias;

  explicit NormParameters(const ops::LayerNormWeights& weights);
};

class CpuExecutor final : public ops::Executor {
 public:
  /// Each operator throws Interrupted when `stop` is set.
  CpuExecutor(Team& team, int rank, Worker& worker, StopFlag stop)
      : team_(team), rank_(rank), worker_(worker), stop_(stop) {}

  /// Number of threads in the team, all of which run the same operators.
  [[nodiscard]] int threads() const { return team_.size(); }
  [[nodiscard]] Worker& worker() { return worker_; }

  /// Calls task(index) for [0, count), shared by the threads of the team.
  template <typename Task>
  void share(std::int64_t count, const Task& task) {
    team_.for_each(rank_, phase_, count, task);
  }
  /// Calls task(first, count) for blocks of rows.
  template <typename Task>
  void share_rows(std::int64_t rows, const Task& task) {
    if (team_.size() == 1) {
      task(0, rows);
      return;
    }
    const std::int64_t block = std::max<std::int64_t>(1, rows / (2 * std::int64_t{team_.size()}));
    share(divide_up(rows, block), [&](std::int64_t index) {
      const std::int64_t first = index * block;
      task(first, std::min(block, rows - first));
    });
  }

  /// Returns memory for at least `count` numbers, shared by the threads of the team.
  [[nodiscard]] float* scratch(std::int64_t count);
  /// Computes a product with all threads of the team.
  void multiply(const Product& product);
  /// Computes the layer norm of rows that are `input_stride` and `output_stride` numbers apart.
  void norm_rows(const NormParameters& norm, double eps, std::int64_t rows, const float* input,
                 std::int64_t input_stride, float* output, std::int64_t output_stride);

 private:
  void do_run(const ops::Call& call) override;

  /// Grows a buffer of the team to at least `count` elements and returns its address to every
  /// thread.
  template <typename T>
  T* shared(PageBuffer& buffer, std::int64_t count);

  Team& team_;
  int rank_;
  Worker& worker_;
  StopFlag stop_;
  unsigned phase_ = 0;
};

}  // namespace fovea::cpu
