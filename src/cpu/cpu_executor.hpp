// CpuExecutor: runs operators as one thread of a team, and what operators on the CPU are made of.
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

/// The types of a backend's tensors, for which operators pack their weights.
struct CpuTypes : ops::TensorTypes {};

/// Prepared weights of a layer norm, alone or within another operator.
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

  /// Threads of the team, all of which run the same operators.
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

  /// Memory of the team for at least `count` numbers: the same for every thread.
  [[nodiscard]] float* scratch(std::int64_t count);
  /// All of a product, by the threads of the team.
  void multiply(const Product& product);
  /// The layer norm of single rows, whose neighbours are `input_stride` and `output_stride` apart.
  void norm_rows(const NormParameters& norm, double eps, std::int64_t rows, const float* input,
                 std::int64_t input_stride, float* output, std::int64_t output_stride);

 private:
  void do_run(const ops::Call& call) override;

  /// A buffer of the team, of at least `count`: the same for every thread.
  template <typename T>
  T* shared(PageBuffer& buffer, std::int64_t count);

  Team& team_;
  int rank_;
  Worker& worker_;
  StopFlag stop_;
  unsigned phase_ = 0;
};

}  // namespace fovea::cpu
