// The backend of a precision and a number of threads, and verdicts on what its operators give.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "asked_isa.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/isa.hpp"
#include "gate.hpp"
#include "ops/backend.hpp"

namespace fovea::cpu {

/// Precision, threads.
class OperatorTest : public testing::TestWithParam<std::tuple<Precision, int>> {
 protected:
  void SetUp() override {
    limit_isa_from_environment();
    if (!has_asked_isa()) {
      GTEST_SKIP() << "this CPU lacks the instructions: it tests the set below them already";
    }
    const auto [precision, threads] = GetParam();
    if (precision == Precision::kBf16 && !has_bf16()) {
      GTEST_SKIP() << "no bf16 instructions";
    }
    if (precision == Precision::kInt8 && !has_int8()) {
      GTEST_SKIP() << "this CPU has no AVX2, without which int8 is refused";
    }
    backend_ = make_cpu_backend({.precision = precision, .threads = threads});
    type_ = backend_->types().qkv;
    limits_ = type_;
  }

  /// Runs `body` as the network for one image, by all threads as a team.
  void run(const std::function<void(ops::Executor&)>& body) {
    backend_->run({.images = 1},
                  [&](ops::Executor& executor, const ops::Slice&) { body(executor); });
  }

  std::unique_ptr<ops::Backend> backend_;
  DType type_ = DType::kF32;
  DType limits_ = DType::kF32;  // what is allowed is what this type costs
  Random random_ = seeded(7);
};

#define FOVEA_EXPECT_PASSES(got, want) EXPECT_EQ(verdict(got, want, limits_).reason, "")
#define FOVEA_EXPECT_REJECTED(got, want) EXPECT_FALSE(verdict(got, want, limits_).passes())

inline std::string name_of(const testing::TestParamInfo<std::tuple<Precision, int>>& info) {
  return fmt::format("{}_{}_threads", to_string(std::get<0>(info.param)), std::get<1>(info.param));
}

}  // namespace fovea::cpu
