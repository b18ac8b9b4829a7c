// Copies on a GPU.
#include "gpu/gpu_executor.hpp"
#include "ops/copy/op.hpp"

namespace fovea::ops {

void run(const CopyCall& call, gpu::GpuExecutor& executor) {
  if (executor.take_scratch(0)) {
    executor.copy_on_device(call.output, call.input);
  }
}

}  // namespace fovea::ops
