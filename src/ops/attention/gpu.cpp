// Attention on a GPU.
#include "gpu/gpu_executor.hpp"
#include "gpu/launch/attention.hpp"
#include "ops/attention/op.hpp"

namespace fovea::ops {
namespace {

/// Number of images for which the kernel is chosen, regardless of the size of the slice.
constexpr std::int64_t kPlannedImages = 256;

}  // namespace

void run(const AttentionCall& call, gpu::GpuExecutor& executor) {
  if (!executor.take_scratch(0)) {
    return;
  }
  // Attention kernels differ in the order in which they add keys, and an image's result must not
  // depend on the number of images: all slices use the kernel chosen for many images.
  AttentionProblem planned = call.problem;
  planned.batch = kPlannedImages;
  const gpu::AttentionChoice choice = executor.planner().attention(planned);
  executor.note(choice.notice);
  executor.launch(attention_launch(executor.device(), call.problem, call.operands, choice.plan));
}

}  // namespace fovea::ops
