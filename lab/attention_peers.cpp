// cuDNN beside the attention kernels.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "gpu/nvidia/cudnn.hpp"
#include "lab/attention_workload.hpp"

namespace fovea::lab {
namespace {

/// What the peer of one workload needs; lives as long as it.
struct AttentionShared {
  std::unique_ptr<gpu::Cudnn> cudnn;
  std::unique_ptr<gpu::SdpaPlan> plan;
};

gpu::SdpaStrides strides(const gpu::AttentionStrides& ours) {
  return {.batch = ours.batch, .row = ours.row, .head = ours.head};
}

gpu::SdpaProblem sdpa_problem(const gpu::AttentionProblem& problem) {
  return {.batch = problem.batch,
          .heads = problem.heads,
          .kv_heads = problem.key_heads(),
          .queries = problem.queries,
          .keys = problem.keys,
          .head_dim = problem.head_dim,
          .scale = problem.scale,
          .causal = problem.causal,
          .type = problem.type,
          .q = strides(problem.q),
          .k = strides(problem.k),
          .v = strides(problem.v),
          .o = strides(problem.o)};
}

}  // namespace

std::vector<Peer> AttentionWorkload::peers(gpu::KernelCache& kernels,
                                           std::vector<std::string>& missing) const {
  if (problem_.varlen) {
    missing.emplace_back("cuDNN is not asked for sequences of different lengths");
    return {};
  }
  gpu::Device& device = kernels.device();
  const auto shared = std::make_shared<AttentionShared>();
  Peer peer;
  try {
    shared->cudnn = gpu::open_cudnn(device);
    shared->plan = shared->cudnn->prepare(sdpa_problem(problem_));
    peer.name = "cuDNN " + shared->cudnn->version();
  } catch (const Error& error) {
    missing.emplace_back(error.what());
    return {};
  }
  peer.run = [this, shared](const Operands& operands, gpu::Stream& on) {
    const gpu::AttentionOperands ours = attention_operands(operands);
    shared->plan->run({.q = ours.q, .k = ours.k, .v = ours.v, .o = ours.o}, on);
  };
  return {std::move(peer)};
}

}  // namespace fovea::lab
