// The patch embedding on a GPU.
#include "gpu/caller_stream.hpp"
#include "gpu/gpu_executor.hpp"
#include "gpu/gpu_weights.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/pixels.hpp"
#include "ops/operand_types.hpp"
#include "ops/patch_embed/op.hpp"

namespace fovea::ops {
namespace {

struct DevicePatchEmbed {
  gpu::DeviceLinear projection;
  std::int64_t depth = 0;
  gpu::DeviceBuffer position;  // bf16, or f32 if it is resized for each image
};

/// Returns the type of pixels for the product: u8, with i8 weights, if norms also write i8 and the
/// TMA supports the row size; otherwise bf16, which also supports positions that are resized for
/// each image.
DType pixel_type(Precision precision, const PatchEmbedWeights& weights) {
  constexpr std::int64_t kCopyUnit = 16;
  const bool integers = operand_types(precision).normed == DType::kI8;
  const bool fits = weights.position_side == 0 && weights.projection.in % kCopyUnit == 0;
  return integers && fits ? DType::kU8 : DType::kBF16;
}

/// Writes the resized positions first; the product is then added to them.
void add_patches(const PatchEmbedCall& call, const DevicePatchEmbed& layer, Address pixels,
                 gpu::GpuExecutor& executor) {
  const PatchEmbedProblem& problem = call.problem;
  const Address tokens = address_of(call.tokens.data);
  executor.launch(positions_launch(executor.device().info(),
                                   {.images = problem.images,
                                    .rows = problem.rows(),
                                    .side = problem.position_side,
                                    .width = problem.hidden},
                                   layer.position.address(), call.shapes, tokens));
  executor.gemm(gpu::gemm_problem(LinearProblem{.place = Place::kPatchEmbed,
                                                .rows = problem.rows(),
                                                .in = layer.depth,
                                                .out = problem.hidden,
                                                .epilogue = Epilogue::kResidual,
                                                .input = DType::kBF16,
                                                .output = call.tokens.dtype}),
                {.a = pixels,
                 .b = layer.projection.weight.address(),
                 .output = tokens,
                 .bias = layer.projection.bias.address()},
                layer.projection);
}

}  // namespace

void run(const PatchEmbedCall& call, gpu::GpuExecutor& executor) {
  const PatchEmbedProblem& problem = call.problem;
  const auto& layer = gpu::uploaded<DevicePatchEmbed>(call.weights);
  const DType type = layer.projection.type;
  const bool widen = type == DType::kBF16;
  const auto bytes = static_cast<std::size_t>(problem.rows() * layer.depth) * size_of(type);
  if (!executor.take_scratch(widen ? bytes : 0)) {
    return;
  }
  Address pixels = address_of(call.patches.data);
  if (widen) {
    executor.launch(pixels_launch(executor.device().info(), pixels, executor.scratch(),
                                  problem.rows(), problem.patch_elements, layer.depth));
    pixels = executor.scratch();
    executor.done(Place::kPixels);
  }
  if (problem.varlen()) {
    add_patches(call, layer, pixels, executor);
    return;
  }
  PatchEmbedProblem product = problem;
  product.patch_elements = layer.depth;
  product.input = widen ? DType::kBF16 : DType::kU8;
  executor.gemm(gpu::gemm_problem(product),
                {.a = pixels,
                 .b = layer.projection.weight.address(),
                 .output = address_of(call.tokens.data),
                 .column_scale = layer.projection.column_scale.address(),
                 .position = layer.position.address()},
                layer.projection);
}

PreparedPtr prepare(const PatchEmbedWeights& weights, gpu::Uploader& uploader) {
  const gpu::PackedPatchEmbed packed =
      gpu::pack_patch_embed(weights, pixel_type(uploader.precision(), weights));
  return gpu::on_device(DevicePatchEmbed{.projection = upload(uploader, packed.projection),
                                         .depth = packed.depth,
                                         .position = packed.is_resized
                                                         ? uploader.upload(packed.position)
                                                         : uploader.upload_bf16(packed.position)});
}

Support can_run(const PatchEmbedProblem& problem, const gpu::Device& device) {
  return gpu::can_run(problem, device.info());
}

void run(const PatchEmbedProblem& problem, const PatchEmbedOperands& operands,
         gpu::CallerStream& stream) {
  stream.gemm(gpu::gemm_problem(problem), {.a = operands.patches,
                                           .b = operands.weight,
                                           .output = operands.output,
                                           .column_scale = operands.scale,
                                           .position = operands.position});
}

}  // namespace fovea::ops
