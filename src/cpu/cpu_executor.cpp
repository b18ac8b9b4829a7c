// Calls the CPU implementations of operators, and provides the memory that the threads of a team
// share.
#include "cpu/cpu_executor.hpp"

#include <chrono>
#include <variant>

#include "cpu/row_kernels.hpp"

namespace fovea::cpu {
namespace {

/// Adds the time between construction and destruction to the worker's time for a place.
class PlaceTimer {
 public:
  PlaceTimer(Worker& worker, ops::Place place)
      : time_(worker.times[place]), start_(std::chrono::steady_clock::now()) {}
  ~PlaceTimer() {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start_;
    ++time_.calls;
    time_.seconds += time.count();
  }
  PlaceTimer(const PlaceTimer&) = delete;
  PlaceTimer& operator=(const PlaceTimer&) = delete;

 private:
  ops::OperatorTime& time_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

void CpuExecutor::do_run(const ops::Call& call) {
  stop_.poll();
  std::visit(
      [this](const auto& operation) {
        const PlaceTimer timer(worker_, operation.place());
        ops::run(operation, *this);
      },
      call);
}

template <typename T>
T* CpuExecutor::shared(PageBuffer& buffer, std::int64_t count) {
  // Operators end with a barrier, so no thread uses the old memory any more.
  if (rank_ == 0) {
    ensure_size(buffer, static_cast<std::size_t>(count) * sizeof(T));
  }
  team_.barrier().arrive_and_wait();
  return reinterpret_cast<T*>(buffer.data());
}

float* CpuExecutor::scratch(std::int64_t count) {
  return shared<float>(team_.scratch, count);
}

void CpuExecutor::multiply(const Product& product) {
  if (team_.size() == 1) {
    product.run(worker_.rows, worker_.converted);
    return;
  }
  run_shared(
      product, team_.size(), [&](std::int64_t units) { return shared<Unit>(team_.packed, units); },
      [&](std::int64_t count, const auto& task) { share(count, task); },
      [&]() -> auto& { return worker_.converted; });
}

void CpuExecutor::norm_rows(const NormParameters& norm, double eps, std::int64_t rows,
                            const float* input, std::int64_t input_stride, float* output,
                            std::int64_t output_stride) {
  share(rows, [&](std::int64_t row) {
    cpu::layer_norm({.input = input + row * input_stride,
                     .output = output + row * output_stride,
                     .weight = norm.weight.data(),
                     .bias = norm.bias.data(),
                     .rows = 1,
                     .width = static_cast<std::int64_t>(norm.weight.size()),
                     .eps = static_cast<float>(eps)});
  });
}

NormParameters::NormParameters(const ops::LayerNormWeights& weights)
    : weight(weights.weight.size()), bias(weights.bias.size()) {
  std::ranges::copy(weights.weight, weight.data());
  std::ranges::copy(weights.bias, bias.data());
}

}  // namespace fovea::cpu
