// The C operators on the launchers: one device object a GPU, work put into the caller's stream.
#include "c/operators_gpu.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "c/status.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/launch.hpp"
#include "gpu/launch/norm.hpp"
#include "gpu/launch/planner.hpp"

namespace fovea::c {
namespace {

using gpu::DevicePtr;

/// A GPU as operators use it: opened by the first of them, and kept.
class Gpu {
 public:
  explicit Gpu(int index)
      : device_(gpu::open_cuda_device(index)), kernels_(*device_), planner_(device_->info()) {}

  [[nodiscard]] gpu::Device& device() { return *device_; }

  void run(const gpu::Launch& launch, void* stream) {
    const std::unique_ptr<gpu::Stream> borrowed = device_->borrow_stream(stream);
    kernels_.run(launch, *borrowed);
  }

  /// Tells the user of a choice's notice when it is news.
  void note(const std::string& notice) const {
    if (const std::string news = planner_.news(notice); !news.empty()) {
      tell(news);
    }
  }

  [[nodiscard]] gpu::Planner& planner() { return planner_; }

  /// At least `count` floats of zero.
  [[nodiscard]] DevicePtr zeros(std::int64_t count) {
    const std::lock_guard lock(mutex_);
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    if (zeros_.empty() || zeros_.back().bytes() < bytes) {
      // Smaller ones stay: kernels under way may be reading them.
      zeros_.emplace_back(*device_, std::max(bytes, kLeastZeros));
      const std::unique_ptr<gpu::Stream> stream = device_->make_stream();
      device_->fill(zeros_.back().address(), 0, zeros_.back().bytes(), *stream);
      stream->synchronize();
    }
    return zeros_.back().address();
  }

 private:
  static constexpr std::size_t kLeastZeros = std::size_t{64} << 10;

  std::unique_ptr<gpu::Device> device_;
  gpu::KernelCache kernels_;
  gpu::Planner planner_;
  std::mutex mutex_;
  std::vector<gpu::DeviceBuffer> zeros_;
};

/// Never closed: when the process ends, the driver may have gone first.
Gpu& gpu_of(const fovea_place& place) {
  static std::mutex mutex;
  static auto* const gpus = new std::map<int, std::unique_ptr<Gpu>>;  // NOLINT: see above
  const std::lock_guard lock(mutex);
  std::unique_ptr<Gpu>& found = (*gpus)[place.device];
  if (!found) {
    found = std::make_unique<Gpu>(place.device);
  }
  return *found;
}

/// A kernel that starts before those ahead of it in the stream have ended may read what the caller
/// has made just now; and it waits for the one before it alone, while a caller's may not have
/// waited for the one before that.
void run_after_all(Gpu& gpu, gpu::Launch launch, void* stream) {
  launch.config.dependent = false;
  gpu.run(launch, stream);
}

void run_product(Gpu& gpu, const gpu::GemmProblem& problem, const gpu::GemmOperands& operands,
                 void* stream) {
  const gpu::GemmChoice choice = gpu.planner().gemm(problem);
  if (!choice.support) {
    throw Error(choice.support.why);
  }
  gpu.note(choice.notice);
  run_after_all(gpu, gemm_launch(gpu.device(), problem, operands, choice.plan), stream);
}

}  // namespace

void attention_on_gpu(const ops::AttentionProblem& problem, const ops::AttentionOperands& operands,
                      std::optional<gpu::AttentionLevel> level, const fovea_place& place) {
  Gpu& gpu = gpu_of(place);
  const gpu::ContextGuard held = gpu.device().hold_context();
  const gpu::AttentionChoice choice = gpu.planner().attention(problem, level);
  gpu.note(choice.notice);
  run_after_all(gpu, gpu::attention_launch(gpu.device(), problem, operands, choice.plan),
                place.stream);
}

fovea_attention_choice choose_on_gpu(const ops::AttentionProblem& problem,
                                     const ops::AttentionOperands& operands,
                                     std::optional<gpu::AttentionLevel> level,
                                     const fovea_place& place) {
  Gpu& gpu = gpu_of(place);
  const gpu::ContextGuard held = gpu.device().hold_context();
  const gpu::AttentionPlan plan = gpu.planner().attention(problem, level).plan;
  const gpu::Launch launch = gpu::attention_launch(gpu.device(), problem, operands, plan);
  fovea_attention_choice choice{};
  choice.level = to_string(level_of(plan)).data();  // of a literal
  const std::string_view kernel = info_of(launch.kernel).name;
  if (kernel.size() >= sizeof(choice.kernel)) {
    fail("the name of kernel {} is too long", kernel);
  }
  kernel.copy(choice.kernel, kernel.size());
  choice.threads = static_cast<std::int32_t>(launch.config.block.x);
  choice.shared_bytes = static_cast<std::int64_t>(launch.config.dynamic_shared_bytes);
  return choice;
}

void linear_on_gpu(const ops::LinearProblem& problem, const ops::LinearOperands& operands,
                   const fovea_place& place) {
  Gpu& gpu = gpu_of(place);
  const gpu::ContextGuard held = gpu.device().hold_context();
  run_product(gpu, gpu::gemm_problem(problem),
              {.a = operands.input,
               .b = operands.weight,
               .output = operands.output,
               .bias = operands.bias != 0 ? operands.bias : gpu.zeros(problem.out)},
              place.stream);
}

void patch_embed_on_gpu(const ops::PatchEmbedProblem& problem,
                        const ops::PatchEmbedOperands& operands, const fovea_place& place) {
  Gpu& gpu = gpu_of(place);
  const gpu::ContextGuard held = gpu.device().hold_context();
  run_product(gpu, gpu::gemm_problem(problem),
              {.a = operands.patches,
               .b = operands.weight,
               .output = operands.output,
               .column_scale = operands.scale,
               .position = operands.position},
              place.stream);
}

void layer_norm_on_gpu(const ops::LayerNormProblem& problem, const ops::LayerNormOperands& operands,
                       const fovea_place& place) {
  Gpu& gpu = gpu_of(place);
  const gpu::ContextGuard held = gpu.device().hold_context();
  run_after_all(gpu, gpu::layer_norm_launch(gpu.device(), problem, operands), place.stream);
}

}  // namespace fovea::c
