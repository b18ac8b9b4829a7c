// GpuExecutor: launches the operators of one slice in a stream.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device/device.hpp"
#include "gpu/gpu_weights.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/launch.hpp"
#include "gpu/launch/notes.hpp"
#include "gpu/launch/planner.hpp"
#include "gpu/nvidia/cublaslt.hpp"
#include "ops/backend.hpp"

namespace fovea::gpu {

/// Computes matrix products with cuBLASLt, if this program has no kernel for them on the device.
class CublasGemm {
 public:
  CublasGemm(Device& device, Notes& notes) : device_(device), notes_(notes) {}

  /// Computes a product of bf16 operands. `why` is the reason why there is no kernel. Opens the
  /// library on first use.
  void run(const GemmProblem& problem, const GemmOperands& operands, DevicePtr bias_bf16,
           const std::string& why, KernelCache& kernels, Stream& stream);

 private:
  [[nodiscard]] MatmulPlan& plan(const MatmulProblem& problem);

  Device& device_;
  std::unique_ptr<CublasLt> library_;
  std::map<MatmulProblem, std::unique_ptr<MatmulPlan>> plans_;
  Notes& notes_;
};

/// Records the end time of each operator of a slice, for a profile.
class Stopwatch {
 public:
  explicit Stopwatch(Device& device) : device_(device) {}

  void start(Stream& stream);
  void stop(ops::Place place, Stream& stream);
  /// Adds the recorded times to `times`; the stream must have been synchronised.
  void add_to(ops::Profile& times);

 private:
  using Mark = std::pair<ops::Place, std::unique_ptr<Event>>;
  Device& device_;
  std::vector<Mark> marks_;  // the start, then the end of each operator
};

/// Device memory for intermediate results of operators. An executor that only measures determines
/// its size for the largest slice: an operator must not need more for fewer images.
struct Scratch {
  DevicePtr address = 0;
  std::size_t bytes = 0;
};

/// The state shared by all executors of a backend.
struct ExecutorContext {
  Device& device;
  KernelCache& kernels;
  Planner& planner;
  CublasGemm& cublas;
  Notes& notes;
};

class GpuExecutor final : public ops::Executor {
 public:
  /// `stream` is null if the executor only measures the scratch memory that the network needs.
  GpuExecutor(const ExecutorContext& context, Stream* stream, Scratch scratch, Stopwatch* stopwatch)
      : context_(context), stream_(stream), scratch_(scratch), stopwatch_(stopwatch) {}

  [[nodiscard]] std::size_t scratch_needed() const { return needed_; }

  // The following are the building blocks of operators.

  [[nodiscard]] Device& device() const { return context_.device; }
  [[nodiscard]] Planner& planner() const { return context_.planner; }
  /// Requests scratch memory for an operator. Returns false if the executor only measures: then the
  /// operator must not launch anything.
  [[nodiscard]] bool take_scratch(std::size_t bytes);
  [[nodiscard]] DevicePtr scratch() const { return scratch_.address; }

  void launch(const Launch& launch) { context_.kernels.run(launch, *stream_); }
  void launch(const std::vector<Launch>& launches);
  /// Launches a matrix product with the weights of `layer`.
  void gemm(const GemmProblem& problem, const GemmOperands& operands, const DeviceLinear& layer);
  void copy_on_device(const TensorView& output, const ConstTensorView& input);
  /// Adds a choice's notice to the notes, unless the user has already been notified.
  void note(const std::string& notice) { context_.notes.add(context_.planner.news(notice)); }
  /// Records the end of a part of an operator, for the profile; do_run records the operator's end.
  void done(ops::Place place);

 private:
  void do_run(const ops::Call& call) override;

  ExecutorContext context_;
  Stream* stream_;
  Scratch scratch_;
  Stopwatch* stopwatch_;
  std::size_t needed_ = 0;
};

/// Returns the scales of a kMXFP8 matrix; 0 for other types.
[[nodiscard]] DevicePtr block_scales(const ConstTensorView& view);

}  // namespace fovea::gpu
