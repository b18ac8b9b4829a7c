// Measures the ceilings, each as the best of a few rounds: those of memory with a large copy on the
// device, those of the matrix units with large cuBLASLt products of random data.
#include <algorithm>
#include <memory>

#include "core/error.hpp"
#include "gpu/nvidia/cublaslt.hpp"
#include "kernels/archs.hpp"
#include "lab/cards/tensor.hpp"
#include "lab/check/placement.hpp"
#include "lab/measure/bench_cards.hpp"

namespace fovea::lab {
namespace {

constexpr std::size_t kCopyBytes = 4ULL << 30;  // much larger than the caches, memory permitting
constexpr std::int64_t kSize = 8192;

double copy_rate(gpu::Device& device, const Nvml& nvml) {
  const std::size_t bytes = std::min(kCopyBytes, device.free_memory() / 4);
  const gpu::DeviceBuffer from(device, bytes);
  const gpu::DeviceBuffer to(device, bytes);
  std::vector<Contender> contenders;
  contenders.push_back({"copy", 1, [&](int, gpu::Stream& stream) {
                          device.copy_on_device(to.address(), from.address(), bytes, stream);
                        }});
  contenders.front().graph = false;
  return 2.0 * static_cast<double>(bytes) / time_in_turns(device, nvml, contenders).front().fastest;
}

double matrix_rate(gpu::Device& device, const Nvml& nvml, gpu::CublasLt& cublaslt, DType type) {
  gpu::MatmulProblem problem;
  problem.m = problem.n = problem.k = kSize;
  problem.type = type;
  if (type == DType::kE4M3) {
    problem.scale = gpu::MatmulScale::kTensor;
  }
  const std::unique_ptr<gpu::MatmulPlan> plan = cublaslt.prepare(problem);
  const std::unique_ptr<gpu::Stream> stream = device.make_stream();
  const gpu::DeviceBuffer a =
      upload(device, Tensor::random("a", type, kSize, kSize, {0.0, 1.0}, 1), *stream);
  const gpu::DeviceBuffer b =
      upload(device, Tensor::random("b", type, kSize, kSize, {0.0, 1.0}, 2), *stream);
  const gpu::DeviceBuffer factor =
      upload(device, Tensor::uniform("one", DType::kF32, 1, 1, 1.0), *stream);
  const gpu::DeviceBuffer output(device, kSize * kSize * size_of(problem.output));
  gpu::MatmulOperands operands;
  operands.a = a.address();
  operands.b = b.address();
  operands.output = output.address();
  operands.a_scale = operands.b_scale = factor.address();
  plan->tune(operands, *stream);
  std::vector<Contender> contenders;
  contenders.push_back(
      {"product", 1, [&](int, gpu::Stream& run_stream) { plan->run(operands, run_stream); }});
  return 2.0 * kSize * kSize * kSize / time_in_turns(device, nvml, contenders).front().fastest;
}

}  // namespace

Ceilings measure_ceilings(gpu::Device& device, const Nvml& nvml, std::string& cublaslt_version,
                          std::vector<std::string>& missing) {
  Ceilings ceilings;
  ceilings.copy_bytes_per_second = copy_rate(device, nvml);
  try {
    const std::unique_ptr<gpu::CublasLt> cublaslt = gpu::open_cublaslt(device);
    cublaslt_version = cublaslt->version();
    ceilings.bf16_flops = matrix_rate(device, nvml, *cublaslt, DType::kBF16);
    if (gpu::arch_up_to(device.info().arch(), gpu::kArchs).e4m3) {
      ceilings.e4m3_flops = matrix_rate(device, nvml, *cublaslt, DType::kE4M3);
    }
  } catch (const Error& error) {
    missing.push_back(fmt::format("ceilings of the matrix units: {}", error.what()));
  }
  return ceilings;
}

}  // namespace fovea::lab
