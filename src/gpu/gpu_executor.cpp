// Operators to launches, and cuBLASLt where there is no kernel.
#include "gpu/gpu_executor.hpp"

#include <algorithm>

#include "core/device_name.hpp"
#include "core/error.hpp"
#include "core/wording.hpp"
#include "gpu/launch/attention.hpp"
#include "gpu/launch/convert.hpp"
#include "gpu/launch/norm.hpp"
#include "gpu/launch/pixels.hpp"
#include "gpu/launch/pool.hpp"
#include "ops/block_scales.hpp"

namespace fovea::gpu {
namespace {

/// What attention is planned for, whatever the slice.
constexpr std::int64_t kManyImages = 256;

DevicePtr address(const ConstTensorView& view) {
  return address_of(view.data);
}

/// Of a matrix of kMXFP8; none of others.
DevicePtr block_scales(const ConstTensorView& view) {
  if (view.dtype != DType::kMXFP8) {
    return 0;
  }
  const ops::BlockScales scales{view.shape[0], view.shape[1]};
  return address(view) + static_cast<DevicePtr>(scales.offset());
}

PoolLinear pool_linear(const DeviceLinear& layer) {
  return {.weight = layer.weight.address(), .bias = layer.bias.address()};
}

template <typename T>
const T& get(const ops::Prepared& prepared) {
  return dynamic_cast<const OnDevice<T>&>(prepared).value;
}

}  // namespace

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
    fail("{}: only kernels of this program normalise rows on the way", to_string(problem));
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
    fail("an operator needs {} bytes of scratch memory on the GPU; {} were planned", bytes,
         scratch_.bytes);
  }
  return stream_ != nullptr;
}

void GpuExecutor::done(ops::Place place) {
  if (stopwatch_ != nullptr) {
    stopwatch_->stop(place, *stream_);
  }
}

void GpuExecutor::gemm(const GemmProblem& problem, const GemmOperands& operands,
                       const DeviceLinear& layer) {
  const GemmChoice choice = context_.planner.gemm(problem);
  context_.notes.add(context_.planner.news(choice.notice));
  if (choice.support) {
    run(gemm_launch(context_.device, problem, operands, choice.plan));
  } else {
    context_.cublas.run(problem, operands, layer.bias_bf16.address(), choice.support.why,
                        context_.kernels, *stream_);
  }
}

void GpuExecutor::do_patch_embed(const ops::PatchEmbedProblem& problem,
                                 const ops::Prepared& weights, const ConstTensorView& patches,
                                 const TensorView& tokens, const ops::ImageShapes& shapes) {
  const auto& layer = get<DevicePatchEmbed>(weights);
  const DType type = layer.projection.type;
  const bool widen = type == DType::kBF16;
  const auto bytes = static_cast<std::size_t>(problem.rows() * layer.depth) * size_of(type);
  if (!take_scratch(widen ? bytes : 0)) {
    return;
  }
  DevicePtr pixels = address(patches);
  if (widen) {
    run(pixels_launch(context_.device.info(), pixels, scratch_.address, problem.rows(),
                      problem.patch_elements, layer.depth));
    pixels = scratch_.address;
    done(ops::Place::kPixels);
  }
  if (problem.varlen()) {
    add_patches(problem, layer, pixels, tokens, shapes);
    return;
  }
  ops::PatchEmbedProblem product = problem;
  product.patch_elements = layer.depth;
  product.input = widen ? DType::kBF16 : DType::kU8;
  gemm(gemm_problem(product),
       {.a = pixels,
        .b = layer.projection.weight.address(),
        .output = address(tokens),
        .column_scale = layer.projection.column_scale.address(),
        .position = layer.position.address()},
       layer.projection);
  done(ops::Place::kPatchEmbed);
}

/// To the resized positions, which are there first.
void GpuExecutor::add_patches(const ops::PatchEmbedProblem& problem, const DevicePatchEmbed& layer,
                              DevicePtr pixels, const TensorView& tokens,
                              const ops::ImageShapes& shapes) {
  run(positions_launch(context_.device.info(),
                       {.images = problem.images,
                        .rows = problem.rows(),
                        .side = problem.position_side,
                        .width = problem.hidden},
                       layer.position.address(), shapes, address(tokens)));
  gemm(gemm_problem(ops::LinearProblem{.place = ops::Place::kPatchEmbed,
                                       .rows = problem.rows(),
                                       .in = layer.depth,
                                       .out = problem.hidden,
                                       .epilogue = ops::Epilogue::kResidual,
                                       .input = DType::kBF16,
                                       .output = tokens.dtype}),
       {.a = pixels,
        .b = layer.projection.weight.address(),
        .output = address(tokens),
        .bias = layer.projection.bias.address()},
       layer.projection);
  done(ops::Place::kPatchEmbed);
}

void GpuExecutor::do_layer_norm(const ops::LayerNormProblem& problem, const ops::Prepared& weights,
                                const ConstTensorView& input, const TensorView& output,
                                const TensorView& row_scales) {
  const auto& norm = get<DeviceNorm>(weights);
  if (!take_scratch(0)) {
    return;
  }
  run(layer_norm_launch(context_.device, problem,
                        {.input = address(input),
                         .weight = norm.weight.address(),
                         .bias = norm.bias.address(),
                         .output = address(output),
                         .row_scale = address(row_scales),
                         .block_scales = block_scales(output)}));
  done(ops::Place::kLayerNorm);
}

void GpuExecutor::do_linear(const ops::LinearProblem& problem, const ops::Prepared& weights,
                            const ConstTensorView& input, const TensorView& output,
                            const ConstTensorView& row_scales) {
  const auto& layer = get<DeviceLinear>(weights);
  if (problem.norm == (layer.column_sum.bytes() == 0)) {
    fail("{}: its weights were prepared {} a norm", to_string(problem),
         problem.norm ? "without" : "with");
  }
  if (layer.type != weight_type(problem.input)) {
    fail("{}: its weights were prepared as {}", to_string(problem), to_string(layer.type));
  }
  constexpr std::size_t kRowNorm = 2 * sizeof(float);
  if (!take_scratch(problem.norm ? static_cast<std::size_t>(problem.rows) * kRowNorm : 0)) {
    return;
  }
  if (problem.norm) {
    run(row_norm_launch(
        context_.device,
        {.rows = problem.rows, .width = problem.in, .eps = problem.eps, .input = problem.input},
        {.input = address(input), .norms = scratch_.address}));
    done(ops::Place::kLayerNorm);
  }
  gemm(gemm_problem(problem),
       {.a = address(input),
        .b = layer.weight.address(),
        .output = address(output),
        .bias = layer.bias.address(),
        .column_scale = layer.column_scale.address(),
        .row_scale = address(row_scales),
        .row_norm = scratch_.address,
        .column_sum = layer.column_sum.address(),
        .output_scale = layer.output.scale,
        .a_scales = block_scales(input),
        .b_scales = layer.block_scales.address(),
        .output_scales = block_scales(output)},
       layer);
  done(problem.place);
}

void GpuExecutor::do_attention(const ops::AttentionProblem& problem,
                               const ops::AttentionOperands& operands) {
  if (!take_scratch(0)) {
    return;
  }
  // Kernels of attention add keys in orders of their own, and an image's result must not depend on
  // how many there are: all slices take the kernel that suits many.
  ops::AttentionProblem many = problem;
  many.batch = kManyImages;
  const AttentionChoice choice = context_.planner.attention(many);
  context_.notes.add(context_.planner.news(choice.notice));
  run(attention_launch(context_.device, problem, operands, choice.plan));
  done(ops::Place::kAttention);
}

void GpuExecutor::do_pool(const ops::PoolProblem& problem, const ops::Prepared& weights,
                          const ConstTensorView& input, const TensorView& output,
                          const ops::ImageShapes& shapes) {
  const auto& head = get<DevicePool>(weights);
  if (!take_scratch(pool_workspace_bytes(problem))) {
    return;
  }
  for (const Launch& launch : pool_launches(context_.device, problem,
                                            {.x = address(input),
                                             .output = address(output),
                                             .workspace = scratch_.address,
                                             .starts = shapes.starts,
                                             .keys = head.keys.address(),
                                             .key_sums = head.key_sums.address(),
                                             .norm_weight = head.norm.weight.address(),
                                             .norm_bias = head.norm.bias.address(),
                                             .value = pool_linear(head.value),
                                             .out = pool_linear(head.out),
                                             .fc1 = pool_linear(head.fc1),
                                             .fc2 = pool_linear(head.fc2)})) {
    run(launch);
  }
  done(ops::Place::kPool);
}

void GpuExecutor::do_project(const ops::ProjectProblem& problem, const ops::Prepared& weights,
                             const ConstTensorView& input, const TensorView& output) {
  const auto& head = get<DeviceProject>(weights);
  if (!take_scratch(project_workspace_bytes(problem))) {
    return;
  }
  for (const Launch& launch : project_launches(context_.device, problem,
                                               {.x = address(input),
                                                .output = address(output),
                                                .workspace = scratch_.address,
                                                .norm_weight = head.norm.weight.address(),
                                                .norm_bias = head.norm.bias.address(),
                                                .linear = pool_linear(head.linear)})) {
    run(launch);
  }
  done(ops::Place::kPool);
}

void GpuExecutor::do_copy(const ConstTensorView& input, const TensorView& output) {
  if (!take_scratch(0)) {
    return;
  }
  const auto bytes = static_cast<std::size_t>(input.shape.elements()) * size_of(input.dtype);
  context_.device.copy_on_device(address(output), address(input), bytes, *stream_);
  done(ops::Place::kOther);
}

void GpuExecutor::do_convert(const ConstTensorView& input, const TensorView& output) {
  if (input.dtype == output.dtype) {
    do_copy(input, output);
    return;
  }
  if (!take_scratch(0)) {
    return;
  }
  run(convert_launch(context_.device.info(),
                     {.rows = input.shape[0],
                      .width = input.shape[1],
                      .input = input.dtype,
                      .output = output.dtype},
                     address(input), address(output)));
  done(ops::Place::kOther);
}

}  // namespace fovea::gpu
