// cuDNN beside the attention kernels.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "gpu/nvidia/cudnn.hpp"
#include "lab/cards/attention_workload.hpp"

namespace fovea::lab {
namespace {

/// What the peer of one workload needs; lives as long as it.
struct AttentionShared {
  std::unique_ptr<gpu::Cudnn> cudnn;
  std::unique_ptr<gpu::SdpaPlan> plan;
};

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
    shared->plan = shared->cudnn->prepare(problem_);
    peer.name = "cuDNN " + shared->cudnn->version();
  } catch (const Error& error) {
    missing.emplace_back(error.what());
    return {};
  }
  peer.run = [this, shared](const Operands& operands, gpu::Stream& on) {
    shared->plan->run(attention_operands(operands), on);
  };
  return {std::move(peer)};
}

}  // namespace fovea::lab
