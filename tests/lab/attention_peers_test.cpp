// cuDNN as a peer, on a stand-in for its library: what it is given, and what is said without it.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/host_device.hpp"
#include "lab/cards/attention_workload.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/check/judge.hpp"
#include "lab/check/placement.hpp"

namespace fovea::lab {
namespace {

class AttentionPeersTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("FOVEA_CUDNN", FOVEA_FAKE_CUDNN, 1);
    setenv("FOVEA_CUBLASLT", FOVEA_FAKE_CUDNN, 1);  // any library: it is opened and not called
  }
  void TearDown() override {
    unsetenv("FOVEA_CUDNN");
    unsetenv("FOVEA_CUBLASLT");
  }

  static ops::AttentionProblem problem(std::int64_t queries, std::int64_t keys, bool causal) {
    ops::AttentionProblem problem;
    problem.batch = 2;
    problem.heads = 3;
    problem.queries = queries;
    problem.type = DType::kBF16;
    problem.keys = keys;
    problem.head_dim = 64;
    problem.scale = 0.125;
    problem.causal = causal;
    return problem;
  }

  /// What the peer leaves in the output, against the workload's exact result.
  Verdict verdict_of(const Peer& peer, const Workload& workload) {
    Placement placement(device_, workload, stream_);
    const OutputSpec output = workload.output();
    std::vector<TileValues> values =
        expectations(workload, sample_tiles(output.rows, output.columns, 8, 1));
    placement.reset(stream_);
    peer.run(placement.operands(), stream_);
    placement.read(values, stream_);
    return judge(values, Tolerance{});
  }

  gpu::HostDevice device_;
  gpu::HostStream stream_;
  gpu::KernelCache kernels_{device_};
  std::vector<std::string> missing_;
};

TEST_F(AttentionPeersTest, GivesWhatTheWorkloadAsksFor) {
  for (const bool causal : {false, true}) {
    const AttentionWorkload packed(problem(17, 17, causal), AttentionLayout::kPacked, 1);
    const AttentionWorkload separate(problem(9, 20, causal), AttentionLayout::kSeparate, 2);
    for (const AttentionWorkload* const workload : {&packed, &separate}) {
      const std::vector<Peer> peers = workload->peers(kernels_, missing_);
      ASSERT_EQ(peers.size(), 1U);
      EXPECT_EQ(peers[0].name, "cuDNN 9.19.0");
      EXPECT_TRUE(peers[0].same_result);
      const Verdict verdict = verdict_of(peers[0], *workload);
      EXPECT_TRUE(verdict.passes()) << workload->describe() << ": " << verdict.reason;
    }
  }
  EXPECT_TRUE(missing_.empty());
}

TEST_F(AttentionPeersTest, SaysWhenThereIsNone) {
  setenv("FOVEA_CUDNN", "/nowhere/libcudnn.so.9", 1);
  const AttentionWorkload workload(problem(17, 17, false), AttentionLayout::kPacked, 1);
  EXPECT_TRUE(workload.peers(kernels_, missing_).empty());
  ASSERT_EQ(missing_.size(), 1U);
  EXPECT_NE(missing_[0].find("cuDNN"), std::string::npos) << missing_[0];
}

}  // namespace
}  // namespace fovea::lab
