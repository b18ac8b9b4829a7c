// What the tests of GEMM plans share: kernels to plan with, the patch embedding, operands.
#pragma once

#include <cstdint>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/gemm.hpp"

namespace fovea::gpu {

/// Plans are of kernels that the program carries; without any its tests are skipped.
class PlansOfKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
  }
};

/// The patch embedding of so many images by base-patch16-224, of pixels as they are.
inline GemmProblem patch_embedding(std::int64_t images) {
  return {.m = images * 196,
          .n = 768,
          .k = 768,
          .a = DType::kU8,
          .b = DType::kI8,
          .epilogue = GemmEpilogue::kPosition,
          .tokens = 196};
}

/// All operands but the scales of blocks, at an address that suits each.
inline constexpr GemmOperands kOperands{.a = 4096,
                                        .b = 4096,
                                        .output = 4096,
                                        .bias = 4096,
                                        .column_scale = 4096,
                                        .row_scale = 4096,
                                        .row_norm = 4096,
                                        .column_sum = 4096,
                                        .position = 4096};

}  // namespace fovea::gpu
