// The C operators on the launchers: one device object a GPU, work put into the caller's stream.
#include "c/operators_gpu.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "c/operator_types.hpp"
#include "c/status.hpp"
#include "gpu/device/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/attention.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/launch.hpp"
#include "gpu/launch/norm.hpp"
#include "gpu/launch/notes.hpp"

namespace fovea::c {
namespace {

using gpu::DevicePtr;

DevicePtr address(const void* pointer) {
  return reinterpret_cast<DevicePtr>(pointer);
}

/// A GPU as operators use it: opened by the first of them, and kept.
class Gpu {
 public:
  explicit Gpu(int index) : device_(gpu::open_cuda_device(index)), kernels_(*device_) {}

  [[nodiscard]] gpu::Device& device() { return *device_; }

  void run(const gpu::Launch& launch, void* stream) {
    const std::unique_ptr<gpu::Stream> borrowed = device_->borrow_stream(stream);
    kernels_.run(launch, *borrowed);
  }

  /// Tells the user of it, once; of an empty text nothing.
  void note(const std::string& text) {
    if (text.empty()) {
      return;
    }
    std::string news;
    {
      const std::lock_guard lock(mutex_);
      notes_.add(text);
      news = notes_.take();
    }
    if (!news.empty()) {
      tell(news);
    }
  }

  /// The best plan of a product, looked for once. Throws can_run's reason when there is none.
  [[nodiscard]] gpu::GemmPlan plan(const gpu::GemmProblem& problem) {
    const auto key = std::tuple(problem.m, problem.n, problem.k, problem.a, problem.b,
                                problem.output, problem.epilogue, problem.tokens);
    const std::lock_guard lock(mutex_);
    if (const auto found = plans_.find(key); found != plans_.end()) {
      return found->second;
    }
    if (const std::string reason = can_run(problem, device_->info()); !reason.empty()) {
      throw Error(reason);
    }
    if (plans_.size() >= kMostPlans) {
      plans_.clear();  // of a program whose sizes never repeat
    }
    return plans_.emplace(key, gemm_plans(problem, device_->info()).front()).first->second;
  }

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
  static constexpr std::size_t kMostPlans = 4096;
  using PlanKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, DType, DType, DType,
                             gpu::GemmEpilogue, std::int64_t>;

  std::unique_ptr<gpu::Device> device_;
  gpu::KernelCache kernels_;
  std::mutex mutex_;
  std::map<PlanKey, gpu::GemmPlan> plans_;
  gpu::Notes notes_;
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

gpu::AttentionStrides strides_of(const fovea_strides& strides) {
  return {.batch = strides.batch, .row = strides.row, .head = strides.head};
}

std::optional<gpu::AttentionLevel> level_of(std::int32_t level) {
  switch (level) {
    case FOVEA_LEVEL_AUTO:
      return std::nullopt;
    case FOVEA_LEVEL_SCALAR:
      return gpu::AttentionLevel::kScalar;
    case FOVEA_LEVEL_WMMA:
      return gpu::AttentionLevel::kWmma;
    case FOVEA_LEVEL_MMA:
      return gpu::AttentionLevel::kMma;
    case FOVEA_LEVEL_WGMMA:
      return gpu::AttentionLevel::kWgmma;
    default:
      fail("{} is no fovea_level", level);
  }
}

struct AttentionCall {
  gpu::AttentionProblem problem;
  gpu::AttentionOperands operands;
};

/// The launches that an attention takes. Masks that begin with the first key leave the keys beyond
/// the last query out, or the queries beyond the last key unmasked.
std::vector<AttentionCall> calls_of(const fovea_attention_args& args) {
  const DType type = type_of(args.type);
  AttentionCall call;
  call.problem = {.batch = args.batch,
                  .heads = args.heads,
                  .kv_heads = args.kv_heads,
                  .queries = args.queries,
                  .keys = args.keys,
                  .head_dim = args.head_dim,
                  .scale = args.scale,
                  .causal = args.causal != FOVEA_CAUSAL_NONE,
                  .type = type,
                  .varlen = args.cu_seqlens_q != nullptr,
                  .q = strides_of(args.q_strides),
                  .k = strides_of(args.k_strides),
                  .v = strides_of(args.v_strides),
                  .o = strides_of(args.o_strides)};
  call.operands = {.q = address(args.q),
                   .k = address(args.k),
                   .v = address(args.v),
                   .o = address(args.o),
                   .cu_seqlens_q = address(args.cu_seqlens_q),
                   .cu_seqlens_k = address(args.cu_seqlens_k)};
  if (args.causal != FOVEA_CAUSAL_FIRST || args.queries == args.keys) {
    return {call};
  }
  if (call.problem.varlen) {
    fail("attention: for sequences of different lengths the mask ends with the last key");
  }
  const std::int64_t square = std::min(args.queries, args.keys);
  AttentionCall rest = call;
  call.problem.queries = call.problem.keys = square;
  if (args.queries == square) {
    return {call};
  }
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  rest.problem.queries = args.queries - square;
  rest.problem.causal = false;
  rest.operands.q += static_cast<DevicePtr>(square * args.q_strides.row * bytes);
  rest.operands.o += static_cast<DevicePtr>(square * args.o_strides.row * bytes);
  return {call, rest};
}

gpu::GemmEpilogue gemm_epilogue(std::int32_t epilogue) {
  switch (epilogue_of(epilogue)) {
    case ops::Epilogue::kNone:
      return gpu::GemmEpilogue::kBias;
    case ops::Epilogue::kGeluTanh:
      return gpu::GemmEpilogue::kGelu;
    case ops::Epilogue::kResidual:
      return gpu::GemmEpilogue::kResidual;
  }
  fail("a linear layer with an unknown epilogue");
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
  run_after_all(gpu, gemm_launch(gpu.device(), problem, operands, gpu.plan(problem)), stream);
}

}  // namespace

void attention_on_gpu(const fovea_attention_args& args, const fovea_place& place) {
  Gpu& gpu = gpu_of(place);
  const std::shared_ptr<void> held = gpu.device().hold_context();
  for (const AttentionCall& call : calls_of(args)) {
    const gpu::AttentionChoice choice =
        gpu::choose_attention(call.problem, gpu.device().info(), level_of(args.level));
    gpu.note(choice.notice);
    run_after_all(gpu,
                  gpu::attention_launch(gpu.device(), call.problem, call.operands, choice.plan),
                  place.stream);
  }
}

fovea_attention_choice choose_on_gpu(const fovea_attention_args& args, const fovea_place& place) {
  gpu::Device& device = gpu_of(place).device();
  const std::shared_ptr<void> held = device.hold_context();
  const AttentionCall call = calls_of(args).front();
  const gpu::AttentionPlan plan =
      gpu::attention_plan(call.problem, device.info(), level_of(args.level));
  const gpu::Launch launch = gpu::attention_launch(device, call.problem, call.operands, plan);
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

void linear_on_gpu(const fovea_linear_args& args, const fovea_place& place) {
  Gpu& gpu = gpu_of(place);
  const std::shared_ptr<void> held = gpu.device().hold_context();
  const DType type = type_of(args.type);
  run_product(gpu,
              {.m = args.rows,
               .n = args.out,
               .k = args.in,
               .a = type,
               .b = type,
               .output = type,
               .epilogue = gemm_epilogue(args.epilogue)},
              {.a = address(args.x),
               .b = address(args.weight),
               .output = address(args.output),
               .bias = args.bias != nullptr ? address(args.bias) : gpu.zeros(args.out)},
              place.stream);
}

void patch_embed_on_gpu(const fovea_patch_embed_args& args, const fovea_place& place) {
  Gpu& gpu = gpu_of(place);
  const std::shared_ptr<void> held = gpu.device().hold_context();
  run_product(gpu,
              {.m = args.images * args.tokens,
               .n = args.out,
               .k = args.in,
               .a = type_of(args.patch_type),
               .b = type_of(args.weight_type),
               .output = type_of(args.type),
               .epilogue = gpu::GemmEpilogue::kPosition,
               .tokens = args.tokens},
              {.a = address(args.patches),
               .b = address(args.weight),
               .output = address(args.output),
               .column_scale = address(args.scale),
               .position = address(args.position)},
              place.stream);
}

void layer_norm_on_gpu(const fovea_layer_norm_args& args, const fovea_place& place) {
  Gpu& gpu = gpu_of(place);
  const std::shared_ptr<void> held = gpu.device().hold_context();
  const DType type = type_of(args.type);
  run_after_all(
      gpu,
      gpu::layer_norm_launch(
          gpu.device(),
          {.rows = args.rows, .width = args.width, .eps = args.eps, .input = type, .output = type},
          {.input = address(args.x),
           .weight = address(args.weight),
           .bias = address(args.bias),
           .output = address(args.output)}),
      place.stream);
}

}  // namespace fovea::c
