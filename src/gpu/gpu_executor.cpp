// GpuExecutor: launches kernels, or cuBLASLt where there is no kernel.
#include "gpu/gpu_executor.hpp"

#include <algorithm>
#include <variant>

#include "core/device_name.hpp"
#include "core/error.hpp"
#include "core/wording.hpp"
#include "gpu/launch/pixels.hpp"
#include "ops/block_scales.hpp"

namespace fovea::gpu {
DevicePtr block_scales(const ConstTensorView& view) {
  if (view.dtype != DType::kMXFP8) {
    return 0;
  }
  const ops::BlockScales scales{view.shape[0], view.shape[1]};
  return address_of(view.data) + static_cast<DevicePtr>(scales.offset());
}

void Stopwatch::start(Stream& stream) {
  marks_.clear();
  stop(ops::Place::kOther, stream);
}

void Stopwatch::stop(ops::Place place, Stream& stream) {
  marks_.emplace_back(place, device_.make_event());
  marks_.back().second->record(stream);
}

void Stopwatch::add_to(ops::Profile& times) {
  for (std::size_t i = 1; i < marks_.size(); ++i) {
    ops::OperatorTime& time = times[marks_[i].first];
    ++time.calls;
    time.seconds += device_.seconds_between(*marks_[i - 1].second, *marks_[i].second);
  }
  marks_.clear();
}

MatmulPlan& CublasGemm::plan(const MatmulProblem& problem) {
  if (!library_) {
    library_ = open_cublaslt(device_);
  }
  auto& place = plans_[problem];
  if (!place) {
    place = library_->prepare(problem);
  }
  return *place;
}

void CublasGemm::run(const GemmProblem& problem, const GemmOperands& operands, DevicePtr bias_bf16,
                     const std::string& why, KernelCache& kernels, Stream& stream) {
  if (problem.row_norm) {
    fail("{}: cuBLASLt cannot normalise rows, and this program has no kernel for the product",
         to_string(problem));
  }
  if (device_.info().is_emulated) {
    fail("{}, and NVIDIA's libraries do not run on the {}; use {}", why, device_.info().name,
         option_words("device", emulator_name(kDefaultArch)));
  }
  if (problem.a != DType::kBF16 || problem.b != DType::kBF16 || problem.output != DType::kBF16) {
    fail("{}: on {} matrix products run in bf16 only; use {}", to_string(problem),
         device_.info().name, option_words("precision", "bf16"));
  }
  MatmulProblem product{.m = problem.m, .n = problem.n, .k = problem.k};
  product.epilogue = MatmulEpilogue::kBias;
  if (problem.epilogue == GemmEpilogue::kGelu) {
    product.epilogue = MatmulEpilogue::kBiasGelu;
  } else if (problem.epilogue == GemmEpilogue::kResidual) {
    product.accumulate = true;
  } else if (problem.epilogue == GemmEpilogue::kPosition) {
    product.epilogue = MatmulEpilogue::kNone;
    product.accumulate = true;
    kernels.run(repeat_launch(device_.info(), operands.position, operands.output,
                              problem.tokens * problem.n, problem.m / problem.tokens),
                stream);
  }
  plan(product).run(
      {.a = operands.a, .b = operands.b, .output = operands.output, .bias = bias_bf16}, stream);
  notes_.add(problem, why, device_.info());
}

bool GpuExecutor::take_scratch(std::size_t bytes) {
  needed_ = std::max(needed_, bytes);
  if (stream_ != nullptr && bytes > scratch_.bytes) {
    fail("an operator needs {} bytes of scratch memory on the GPU, but only {} are reserved", bytes,
         scratch_.bytes);
  }
  return stream_ != nullptr;
}

void GpuExecutor::done(ops::Place place) {
  if (stopwatch_ != nullptr) {
    stopwatch_->stop(place, *stream_);
  }
}

void GpuExecutor::do_run(const ops::Call& call) {
  std::visit(
      [this](const auto& operation) {
        ops::run(operation, *this);
        done(operation.place());
      },
      call);
}

void GpuExecutor::launch(const std::vector<Launch>& launches) {
  for (const Launch& each : launches) {
    launch(each);
  }
}

void GpuExecutor::gemm(const GemmProblem& problem, const GemmOperands& operands,
                       const DeviceLinear& layer) {
  const GemmChoice choice = planner().gemm(problem);
  note(choice.notice);
  if (choice.support) {
    launch(gemm_launch(device(), problem, operands, choice.plan));
  } else {
    context_.cublas.run(problem, operands, layer.bias_bf16.address(), choice.support.why,
                        context_.kernels, *stream_);
  }
}

void GpuExecutor::copy_on_device(const TensorView& output, const ConstTensorView& input) {
  device().copy_on_device(address_of(output.data), address_of(input.data), input.bytes(), *stream_);
}

}  // namespace fovea::gpu
