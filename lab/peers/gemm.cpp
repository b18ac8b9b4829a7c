// cuBLASLt as a peer of the matrix kernels: the product alone, and combinations with other kernels
// that compute the full result.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "gpu/nvidia/cublaslt.hpp"
#include "kernels/archs.hpp"
#include "kernels/lab/peer_params.hpp"
#include "lab/cards/gemm_workload.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/check/placement.hpp"
#include "ops/block_scales.hpp"

namespace fovea::lab {
namespace {

using gpu::DeviceBuffer;
using gpu::DevicePtr;
using gpu::GemmEpilogue;
using gpu::MatmulEpilogue;
using gpu::MatmulProblem;
using gpu::MatmulScale;

/// State shared by all peers of a workload, which own it jointly.
struct GemmShared {
  gpu::KernelCache& kernels;
  gpu::GemmProblem problem;
  std::unique_ptr<gpu::CublasLt> cublaslt{};
  DeviceBuffer bias{};          // bf16, the type that cuBLASLt requires for bf16 outputs
  DeviceBuffer scales{};        // f32 ones, used as scales for the rows of A and for whole tensors
  DeviceBuffer output_scale{};  // one f32 number
  DeviceBuffer block_scales{};  // E8M0 ones, for both operands of the MXFP8 peer
  DeviceBuffer scratch{};       // (m, n) in bf16, input of the second step; or sums in s32
};

/// A library call and, if needed, a kernel that completes the result.
struct Recipe {
  std::string name;
  MatmulProblem product;
  bool same_result = false;
  bool to_scratch = false;  // the call writes to scratch memory, not to the output
  std::function<gpu::Launch(const GemmShared&, const gpu::GemmOperands&)> remainder{};
};

MatmulProblem matmul_problem(const gpu::GemmProblem& problem, MatmulEpilogue epilogue,
                             MatmulScale scale) {
  return {.m = problem.m,
          .n = problem.n,
          .k = problem.k,
          .type = problem.a == DType::kMXFP8 ? DType::kE4M3 : problem.a,
          .output = DType::kBF16,
          .epilogue = epilogue,
          .scale = problem.a == DType::kMXFP8  ? MatmulScale::kBlocks
                   : problem.a == DType::kE4M3 ? scale
                                               : MatmulScale::kNone};
}

/// Returns a launch that computes output = y + addend in bf16; the addend repeats after `period`
/// elements.
gpu::Launch add(const GemmShared& shared, DevicePtr y, DevicePtr addend, DevicePtr output,
                std::int64_t period) {
  constexpr int kBlocksPerSm = 8;  // with 2,048 threads, the maximum of an SM
  const auto chunks = [](std::int64_t elements) {
    return static_cast<std::uint32_t>(elements / peer::kElements);
  };
  gpu::Launch launch{.kernel = gpu::KernelId::peer_add};
  launch.config.grid.x =
      static_cast<std::uint32_t>(shared.kernels.device().info().sm_count * kBlocksPerSm);
  launch.config.block.x = peer::kThreads;
  launch.params =
      gpu::to_bytes(peer::AddParams{.y = pointer<const void>(y),
                                    .addend = pointer<const void>(addend),
                                    .output = pointer<void>(output),
                                    .chunks = chunks(shared.problem.m * shared.problem.n),
                                    .period = chunks(period)});
  return launch;
}

/// Returns the recipe for 8-bit integers: the library computes only their 32-bit sums.
Recipe integer_product(const gpu::GemmProblem& problem) {
  return {"cuBLASLt int8, product alone, s32",
          matmul_problem(problem, MatmulEpilogue::kNone, MatmulScale::kNone), false, true};
}

/// Returns whether the library can also multiply the problem's e4m3 operands as MXFP8, with unit
/// scales.
bool has_mxfp8_peer(const gpu::GemmProblem& problem, int arch) {
  return problem.a == DType::kE4M3 && gpu::arch_up_to(arch, gpu::kArchs).block_scales;
}

/// Returns the recipes that the problem's kernels are compared with.
std::vector<Recipe> recipes_for(const gpu::GemmProblem& problem, int arch) {
  if (problem.a == DType::kI8) {
    return {integer_product(problem)};
  }
  const bool e4m3 = problem.a == DType::kE4M3;
  const std::string by_row = e4m3 ? " row-wise" : "";
  const std::int64_t all = problem.m * problem.n;
  const auto product = [&](MatmulEpilogue epilogue, MatmulScale scale) {
    return matmul_problem(problem, epilogue, scale);
  };
  std::vector<Recipe> recipes;
  recipes.push_back({"cuBLASLt, product alone",
                     product(MatmulEpilogue::kNone, MatmulScale::kTensor), false,
                     problem.output != DType::kBF16});
  if (has_mxfp8_peer(problem, arch)) {
    recipes.push_back({"cuBLASLt MXFP8, product alone",
                       product(MatmulEpilogue::kNone, MatmulScale::kBlocks), false,
                       problem.output != DType::kBF16});
  }
  if (problem.row_norm) {
    return recipes;  // the library does not normalise its operands
  }
  switch (problem.epilogue) {
    case GemmEpilogue::kPosition:
      recipes.push_back({"cuBLASLt" + by_row + ", then position",
                         product(MatmulEpilogue::kNone, MatmulScale::kOuter), true, false,
                         [period = problem.tokens * problem.n](const GemmShared& shared,
                                                               const gpu::GemmOperands& operands) {
                           return add(shared, operands.output, operands.position, operands.output,
                                      period);
                         }});
      break;
    case GemmEpilogue::kBias:
      if (e4m3) {
        recipes.push_back(
            {"cuBLASLt + bias", product(MatmulEpilogue::kBias, MatmulScale::kTensor)});
      }
      recipes.push_back({"cuBLASLt" + by_row + " + bias",
                         product(MatmulEpilogue::kBias, MatmulScale::kOuter), true});
      break;
    case GemmEpilogue::kResidual: {
      recipes.push_back({"cuBLASLt" + by_row + " + bias, then residual",
                         product(MatmulEpilogue::kBias, MatmulScale::kOuter), true, true,
                         [all](const GemmShared& shared, const gpu::GemmOperands& operands) {
                           return add(shared, shared.scratch.address(), operands.output,
                                      operands.output, all);
                         }});
      MatmulProblem adding = product(MatmulEpilogue::kBias, MatmulScale::kOuter);
      adding.accumulate = true;
      recipes.push_back({"cuBLASLt" + by_row + " + bias + residual", adding, true});
      break;
    }
    case GemmEpilogue::kGelu:
      recipes.push_back({"cuBLASLt" + by_row + " + bias, gelu",
                         product(MatmulEpilogue::kBiasGelu, MatmulScale::kOuter),
                         problem.output != DType::kMXFP8, problem.output == DType::kMXFP8});
      break;
  }
  return recipes;
}

gpu::MatmulOperands matmul_operands(const GemmShared& shared, const gpu::GemmOperands& operands,
                                    const Recipe& recipe) {
  const bool outer = recipe.product.scale == MatmulScale::kOuter;
  const bool in_blocks = shared.problem.a == DType::kMXFP8;
  const DevicePtr ones = recipe.product.scale == MatmulScale::kBlocks
                             ? shared.block_scales.address()
                             : shared.scales.address();
  return {.a = operands.a,
          .b = operands.b,
          .output = recipe.to_scratch ? shared.scratch.address() : operands.output,
          .bias = shared.bias.address(),
          .a_scale = in_blocks                          ? operands.a_scales
                     : outer && operands.row_scale != 0 ? operands.row_scale
                                                        : ones,
          .b_scale = in_blocks ? operands.b_scales
                     : outer   ? operands.column_scale
                               : ones,
          .output_scale = shared.output_scale.address()};
}

std::shared_ptr<GemmShared> share(gpu::KernelCache& kernels, const gpu::GemmProblem& problem,
                                  const GemmTensors& tensors, float scale, gpu::Stream& stream) {
  gpu::Device& device = kernels.device();
  auto shared = std::make_shared<GemmShared>(GemmShared{.kernels = kernels, .problem = problem});
  shared->cublaslt = gpu::open_cublaslt(device);
  if (!tensors.bias.name().empty()) {
    std::vector<double> bias;
    bias.reserve(static_cast<std::size_t>(problem.n));
    for (std::int64_t column = 0; column < problem.n; ++column) {
      bias.push_back(tensors.bias.at(0, column));
    }
    shared->bias =
        upload(device, Tensor::from_values("bias", DType::kBF16, 1, problem.n, bias), stream);
  }
  shared->scales = upload(device, Tensor::uniform("ones", DType::kF32, 1, problem.m, 1.0), stream);
  if (has_mxfp8_peer(problem, device.info().arch())) {
    constexpr std::uint8_t kOne = 127;  // 2^0
    const ops::BlockScales larger{std::max(problem.m, problem.n), problem.k};
    shared->block_scales = DeviceBuffer(device, static_cast<std::size_t>(larger.bytes()));
    device.fill(shared->block_scales.address(), kOne, shared->block_scales.bytes(), stream);
  }
  shared->output_scale =
      upload(device, Tensor::uniform("scale", DType::kF32, 1, 1, 1.0 / double{scale}), stream);
  return shared;
}

}  // namespace

std::vector<Peer> GemmWorkload::peers(gpu::KernelCache& kernels,
                                      std::vector<std::string>& missing) const {
  if (problem_.a == DType::kU8) {
    missing.emplace_back("cuBLASLt has no products of unsigned by signed 8-bit integers");
    return {};
  }
  gpu::Device& device = kernels.device();
  const std::unique_ptr<gpu::Stream> stream = device.make_stream();
  std::shared_ptr<GemmShared> shared;
  try {
    shared = share(kernels, problem_, tensors_, static_cast<float>(output().scale), *stream);
  } catch (const Error& error) {
    missing.emplace_back(error.what());
    return {};
  }
  std::vector<Peer> peers;
  for (const Recipe& recipe : recipes_for(problem_, device.info().arch())) {
    try {
      std::shared_ptr<gpu::MatmulPlan> plan = shared->cublaslt->prepare(recipe.product);
      if (recipe.to_scratch && shared->scratch.bytes() == 0) {
        shared->scratch =
            DeviceBuffer(device, static_cast<std::size_t>(problem_.m * problem_.n) *
                                     (problem_.a == DType::kI8 ? sizeof(std::int32_t) : 2));
      }
      Peer peer;
      peer.name = recipe.name;
      peer.same_result = recipe.same_result;
      peer.prepare = [this, shared, recipe, plan](const Operands& operands,
                                                  gpu::Stream& run_stream) {
        plan->tune(matmul_operands(*shared, gemm_operands(operands), recipe), run_stream);
      };
      peer.run = [this, shared, recipe, plan](const Operands& operands, gpu::Stream& run_stream) {
        const gpu::GemmOperands ours = gemm_operands(operands);
        plan->run(matmul_operands(*shared, ours, recipe), run_stream);
        if (recipe.remainder) {
          shared->kernels.run(recipe.remainder(*shared, ours), run_stream);
        }
      };
      peers.push_back(std::move(peer));
    } catch (const Error& error) {
      missing.push_back(fmt::format("{}: {}", recipe.name, error.what()));
    }
  }
  return peers;
}

}  // namespace fovea::lab
