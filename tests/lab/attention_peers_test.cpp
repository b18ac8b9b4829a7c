// cuDNN as a peer, on a stand-in for its library: what it is given, and what is said without it.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gpu/host_device.hpp"
#include "lab/cards/attention_workload.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/check/judge.hpp"
#include "lab/check/placement.hpp"

namespace fovea::lab {
namespace {

/// Knows how much memory was asked for last.
class SizedDevice final : public gpu::HostDevice {
 public:
  [[nodiscard]] gpu::DevicePtr allocate(std::size_t bytes) override {
    last_bytes = bytes;
    return HostDevice::allocate(bytes);
  }

  std::size_t last_bytes = 0;
};

class AttentionPeersTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("FOVEA_CUDNN", FOVEA_FAKE_CUDNN, 1);
    setenv("FOVEA_CUBLASLT", FOVEA_FAKE_CUDNN, 1);  // any library: it is opened and not called
  }
  void TearDown() override {
    for (const char* const name :
         {"FOVEA_CUDNN", "FOVEA_CUBLASLT", "FAKE_CUDNN_VERSION", "FAKE_CUDNN_REFUSALS"}) {
      unsetenv(name);
    }
  }

  static ops::AttentionProblem problem(std::int64_t queries, std::int64_t keys, bool causal,
                                       DType type = DType::kBF16) {
    ops::AttentionProblem problem;
    problem.batch = 2;
    problem.heads = 3;
    problem.queries = queries;
    problem.type = type;
    problem.keys = keys;
    problem.head_dim = 64;
    problem.scale = 0.125;
    problem.causal = causal;
    return problem;
  }

  /// What is said where there is no peer; empty where there is one.
  std::string fault(DType type = DType::kBF16) {
    missing_.clear();
    const AttentionWorkload workload(problem(4, 4, false, type), AttentionLayout::kSeparate, 1);
    const std::vector<Peer> peers = workload.peers(kernels_, missing_);
    EXPECT_EQ(peers.size() + missing_.size(), 1U);
    return missing_.empty() ? std::string() : missing_.front();
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

  SizedDevice device_;
  gpu::HostStream stream_;
  gpu::KernelCache kernels_{device_};
  std::vector<std::string> missing_;
};

TEST_F(AttentionPeersTest, GivesWhatTheWorkloadAsksFor) {
  for (const bool causal : {false, true}) {
    const AttentionWorkload packed(problem(17, 17, causal), AttentionLayout::kPacked, 1);
    const AttentionWorkload separate(problem(9, 20, causal, DType::kF16),
                                     AttentionLayout::kSeparate, 2);
    ops::AttentionProblem shared_keys = problem(4, 7, causal, DType::kF16);
    shared_keys.heads = 6;
    shared_keys.kv_heads = 3;
    const AttentionWorkload grouped(shared_keys, AttentionLayout::kSeparate, 3);
    for (const AttentionWorkload* const workload : {&packed, &separate, &grouped}) {
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

TEST_F(AttentionPeersTest, TakesTheFirstEngineThatMakesAPlan) {
  const AttentionWorkload workload(problem(4, 4, false), AttentionLayout::kSeparate, 1);
  EXPECT_EQ(workload.peers(kernels_, missing_).size(), 1U);
  EXPECT_EQ(device_.last_bytes, 4096U);  // what the stand-in's engines say that they need
  setenv("FAKE_CUDNN_REFUSALS", "1", 1);
  const std::vector<Peer> peers = workload.peers(kernels_, missing_);
  ASSERT_EQ(peers.size(), 1U);
  EXPECT_EQ(device_.last_bytes, 8192U);
  EXPECT_TRUE(verdict_of(peers[0], workload).passes());
  setenv("FAKE_CUDNN_REFUSALS", "3", 1);
  EXPECT_EQ(fault(),
            "cuDNN has no engine for attention (2,3,4,64) bf16 (3 proposed): this engine refuses");
}

TEST_F(AttentionPeersTest, SaysWhyThereIsNone) {
  setenv("FOVEA_CUDNN", "/nowhere/libcudnn.so.9", 1);
  EXPECT_NE(fault().find("/nowhere/libcudnn.so.9"), std::string::npos) << fault();
  setenv("FOVEA_CUDNN", FOVEA_FAKE_CUDNN, 1);
  EXPECT_EQ(fault(), "");
  setenv("FAKE_CUDNN_VERSION", "90700", 1);
  EXPECT_NE(fault().find("9.7.0, but cuDNN 9.10.0 or newer"), std::string::npos) << fault();
  setenv("FAKE_CUDNN_VERSION", "8907", 1);
  EXPECT_NE(fault().find("cuDNN 8.9.7"), std::string::npos) << fault();
  unsetenv("FAKE_CUDNN_VERSION");
  setenv("FOVEA_CUBLASLT", "/nowhere/libcublasLt.so", 1);  // it would end the process
  EXPECT_NE(fault().find("/nowhere/libcublasLt.so"), std::string::npos) << fault();
}

// Whatever the system has: the package beside PyTorch comes first.
TEST_F(AttentionPeersTest, IsFoundInTheEnvironmentInUse) {
  const std::filesystem::path environment =
      std::filesystem::path(testing::TempDir()) / fmt::format("fovea_cudnn_{}", getpid());
  const std::filesystem::path folder =
      environment / "lib" / "python3.12" / "site-packages" / "nvidia" / "cudnn" / "lib";
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(FOVEA_FAKE_CUDNN, folder / "libcudnn.so.9");
  unsetenv("FOVEA_CUDNN");
  setenv("VIRTUAL_ENV", environment.c_str(), 1);
  setenv("FAKE_CUDNN_VERSION", "92345", 1);
  const AttentionWorkload workload(problem(4, 4, false), AttentionLayout::kSeparate, 1);
  const std::vector<Peer> peers = workload.peers(kernels_, missing_);
  ASSERT_EQ(peers.size(), 1U);
  EXPECT_EQ(peers[0].name, "cuDNN 9.23.45");
  unsetenv("VIRTUAL_ENV");
  std::filesystem::remove_all(environment);
}

TEST_F(AttentionPeersTest, RefusesOtherTypes) {
  EXPECT_EQ(fault(DType::kF32), "cuDNN: attention in f32 is not supported");
}

}  // namespace
}  // namespace fovea::lab
