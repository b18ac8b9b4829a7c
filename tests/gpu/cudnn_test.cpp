// Attention by cuDNN, on a stand-in for its library that computes the graph it is given.
#include "gpu/nvidia/cudnn.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gpu/host_device.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::gpu {
namespace {

class CudnnTest : public testing::Test {
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

  /// What opening says is wrong; empty when nothing is.
  std::string fault() {
    try {
      (void)open_cudnn(device_);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  HostDevice device_;
  HostStream stream_;
};

ops::AttentionProblem problem_of(std::int64_t queries, std::int64_t keys, bool causal, DType type) {
  ops::AttentionProblem problem;
  problem.batch = 2;
  problem.heads = problem.kv_heads = 3;
  problem.queries = queries;
  problem.keys = keys;
  problem.head_dim = 8;
  problem.scale = 0.3;
  problem.causal = causal;
  problem.type = type;
  return problem;
}

constexpr bool seen(const ops::AttentionProblem& problem, std::int64_t query, std::int64_t key) {
  return !problem.causal || key <= query + problem.keys - problem.queries;
}

/// One tensor of 16-bit numbers, by its strides.
struct Operand {
  std::vector<std::uint16_t>* data;
  std::int64_t first;
  ops::AttentionStrides strides;
  DType type;

  [[nodiscard]] double at(std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d) const {
    const std::int64_t index = first + b * strides.batch + h * strides.head + n * strides.row + d;
    const std::uint16_t bits = (*data)[static_cast<std::size_t>(index)];
    return type == DType::kBF16 ? to_float(BFloat16{bits}) : to_float(Float16{bits});
  }
  [[nodiscard]] DevicePtr address() const {
    return reinterpret_cast<DevicePtr>(data->data() + first);
  }
};

/// Runs the problem on drawn numbers; the largest difference to the definition of attention.
double largest_difference(Cudnn& cudnn, ops::AttentionProblem problem, Stream& stream,
                          bool packed) {
  const std::int64_t row = problem.heads * problem.head_dim;
  const auto separate = [&](std::int64_t heads, std::int64_t length) {
    return ops::AttentionStrides{.batch = heads * length * problem.head_dim,
                                 .row = problem.head_dim,
                                 .head = length * problem.head_dim};
  };
  if (packed) {
    problem.q = {.batch = problem.queries * 3 * row, .row = 3 * row, .head = problem.head_dim};
    problem.k = problem.v = problem.q;
    problem.o = {.batch = problem.queries * row, .row = row, .head = problem.head_dim};
  } else {
    problem.q = problem.o = separate(problem.heads, problem.queries);
    problem.k = problem.v = separate(problem.kv_heads, problem.keys);
  }
  std::mt19937 generator(7);
  std::normal_distribution<float> normal(0.3F, 1.0F);
  std::vector<std::vector<std::uint16_t>> inputs(packed ? 1 : 3);
  for (std::vector<std::uint16_t>& input : inputs) {
    input.resize(static_cast<std::size_t>(problem.batch * (packed ? 3 : 1) * row *
                                          std::max(problem.queries, problem.keys)));
    for (std::uint16_t& bits : input) {
      const float value = normal(generator);
      bits = problem.type == DType::kBF16 ? to_bfloat16(value).bits : to_float16(value).bits;
    }
  }
  std::vector<std::uint16_t> output(static_cast<std::size_t>(problem.batch * problem.queries * row),
                                    0x7fc0);  // NaN
  const auto operand = [&](std::size_t which, const ops::AttentionStrides& strides) {
    return packed ? Operand{inputs.data(), static_cast<std::int64_t>(which) * row, strides,
                            problem.type}
                  : Operand{&inputs[which], 0, strides, problem.type};
  };
  const Operand q = operand(0, problem.q);
  const Operand k = operand(1, problem.k);
  const Operand v = operand(2, problem.v);
  const Operand o{&output, 0, problem.o, problem.type};
  cudnn.prepare(problem)->run(
      {.q = q.address(), .k = k.address(), .v = v.address(), .o = o.address()}, stream);

  const std::int64_t group = problem.heads / problem.kv_heads;
  double largest = 0.0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      for (std::int64_t query = 0; query < problem.queries; ++query) {
        std::vector<double> asked;
        std::vector<double> keys;
        std::vector<double> values;
        for (std::int64_t d = 0; d < problem.head_dim; ++d) {
          asked.push_back(q.at(b, h, query, d));
        }
        for (std::int64_t key = 0; key < problem.keys && seen(problem, query, key); ++key) {
          for (std::int64_t d = 0; d < problem.head_dim; ++d) {
            keys.push_back(k.at(b, h / group, key, d));
            values.push_back(v.at(b, h / group, key, d));
          }
        }
        std::vector<double> expected(asked.size());
        ops::reference::attend_row<double>(asked, keys, values, problem.scale, expected);
        for (std::int64_t d = 0; d < problem.head_dim; ++d) {
          const double difference =
              std::abs(o.at(b, h, query, d) - expected[static_cast<std::size_t>(d)]);
          largest = difference <= largest ? largest : difference;  // NaN stays
        }
      }
    }
  }
  return largest;
}

TEST_F(CudnnTest, TheGraphIsAttention) {
  const std::unique_ptr<Cudnn> cudnn = open_cudnn(device_);
  EXPECT_EQ(cudnn->version(), "9.19.0");
  constexpr double kRounding = 0.02;  // of outputs about as large as 2, in bf16
  EXPECT_LT(largest_difference(*cudnn, problem_of(5, 5, false, DType::kBF16), stream_, true),
            kRounding);
  EXPECT_LT(largest_difference(*cudnn, problem_of(5, 5, true, DType::kBF16), stream_, true),
            kRounding);
  EXPECT_LT(largest_difference(*cudnn, problem_of(4, 7, false, DType::kF16), stream_, false),
            kRounding);
  EXPECT_LT(largest_difference(*cudnn, problem_of(4, 7, true, DType::kF16), stream_, false),
            kRounding);
  ops::AttentionProblem grouped = problem_of(4, 7, false, DType::kF16);
  grouped.heads = 6;
  EXPECT_LT(largest_difference(*cudnn, grouped, stream_, false), kRounding);
}

TEST_F(CudnnTest, TakesTheFirstEngineThatMakesAPlan) {
  const std::unique_ptr<Cudnn> cudnn = open_cudnn(device_);
  const ops::AttentionProblem problem = problem_of(4, 4, false, DType::kF16);
  EXPECT_EQ(cudnn->prepare(problem)->workspace_bytes(), 4096U);
  setenv("FAKE_CUDNN_REFUSALS", "1", 1);
  EXPECT_EQ(cudnn->prepare(problem)->workspace_bytes(), 8192U);
  EXPECT_LT(largest_difference(*cudnn, problem, stream_, false), 0.02);
  setenv("FAKE_CUDNN_REFUSALS", "3", 1);
  try {
    (void)cudnn->prepare(problem);
    FAIL() << "no engine took it";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message,
              "cuDNN has no engine for attention (2,3,4,8) f16 (3 proposed): this engine refuses");
  }
}

TEST_F(CudnnTest, SaysWhyThereIsNone) {
  setenv("FOVEA_CUDNN", "/nowhere/libcudnn.so.9", 1);
  EXPECT_NE(fault().find("/nowhere/libcudnn.so.9"), std::string::npos) << fault();
  setenv("FOVEA_CUDNN", FOVEA_FAKE_CUDNN, 1);
  EXPECT_EQ(fault(), "");
  setenv("FAKE_CUDNN_VERSION", "90700", 1);
  EXPECT_NE(fault().find("9.7.0: 9.10.0 or newer"), std::string::npos) << fault();
  setenv("FAKE_CUDNN_VERSION", "8907", 1);
  EXPECT_NE(fault().find("cuDNN 8.9.7"), std::string::npos) << fault();
  unsetenv("FAKE_CUDNN_VERSION");
  setenv("FOVEA_CUBLASLT", "/nowhere/libcublasLt.so", 1);  // it would end the process
  EXPECT_NE(fault().find("/nowhere/libcublasLt.so"), std::string::npos) << fault();
}

// Whatever the system has: the package beside PyTorch comes first.
TEST_F(CudnnTest, IsFoundInTheEnvironmentInUse) {
  const std::filesystem::path environment =
      std::filesystem::path(testing::TempDir()) / fmt::format("fovea_cudnn_{}", getpid());
  const std::filesystem::path folder =
      environment / "lib" / "python3.12" / "site-packages" / "nvidia" / "cudnn" / "lib";
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(FOVEA_FAKE_CUDNN, folder / "libcudnn.so.9");
  unsetenv("FOVEA_CUDNN");
  setenv("VIRTUAL_ENV", environment.c_str(), 1);
  setenv("FAKE_CUDNN_VERSION", "92345", 1);
  EXPECT_EQ(open_cudnn(device_)->version(), "9.23.45");
  unsetenv("VIRTUAL_ENV");
  std::filesystem::remove_all(environment);
}

TEST_F(CudnnTest, RefusesOtherTypes) {
  const std::unique_ptr<Cudnn> cudnn = open_cudnn(device_);
  EXPECT_THROW((void)cudnn->prepare(problem_of(4, 4, false, DType::kF32)), Error);
  EXPECT_THROW((void)cudnn->prepare(problem_of(4, 4, false, DType::kE4M3)), Error);
}

}  // namespace
}  // namespace fovea::gpu
