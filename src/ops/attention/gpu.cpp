// Attention on a GPU.
#include "gpu/gpu_executor.hpp"
#include "gpu/launch/attention.hpp"
#include "ops/attention/op.hpp"

namespace fovea::ops {
namespace {

/// What attention is planned for, whatever the slice.
constexpr std::int64_t kManyImages = 256;

}  // namespace

void run(const AttentionCall& call, gpu::GpuExecutor& executor) {
  if (!executor.take_scratch(0)) {
    return;
  }
  // Kernels of attention add keys in orders of their own, and an image's result must not depend on
  // how many there are: all slices take the kernel that suits many.
  AttentionProblem planned = call.problem;
  planned.batch = kManyImages;
  const gpu::AttentionChoice choice = executor.planner().attention(planned);
  executor.note(choice.notice);
  executor.launch(attention_launch(executor.device(), call.problem, call.operands, choice.plan));
}

}  // namespace fovea::ops
