// Sources in findings: which line leads, the calls that it was inlined at, and lines of the
// toolkit.
#include "emulator/program/source_text.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/device.hpp"

namespace emu {
namespace {

constexpr std::string_view kInclude = "/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/";

class SourceTextTest : public DeviceTest {
 protected:
  // The source of a finding behind these directives.
  std::string source_of(std::string_view directives) {
    std::string text = kernel(fmt::format("{}\n  trap;", directives));
    text += fmt::format(R"(
.file 1 "/code/tsum.cu"
.file 2 "{0}cuda_pipeline_primitives.h"
.file 3 "{0}cuda_pipeline_helpers.h"
)",
                        kInclude);
    const Report report = run(text, put(std::vector<std::uint32_t>(32)), 32);
    text_ = report.findings.empty() ? "" : report.findings[0].text();
    return report.findings.empty() ? "" : report.findings[0].source;
  }

  std::string text_;  // of the last finding
};

constexpr std::string_view kChain = R"(
  .loc 1 58 3
  .loc 1 47 5, function_name $a, inlined_at 1 58 3
  .loc 2 103 9, function_name $b, inlined_at 1 47 5
  .loc 3 219 9, function_name $c, inlined_at 2 103 9
  .loc 3 203 23, function_name $d, inlined_at 3 219 9)";

TEST_F(SourceTextTest, BeginsWithTheInnermostLineOutsideOfTheToolkit) {
  const std::string include(kInclude);
  EXPECT_EQ(source_of(kChain), "/code/tsum.cu:47 (inlined at /code/tsum.cu:58) (inside " + include +
                                   "cuda_pipeline_primitives.h:103) (inside " + include +
                                   "cuda_pipeline_helpers.h:219) (inside " + include +
                                   "cuda_pipeline_helpers.h:203)");
  EXPECT_NE(text_.find(", /code/tsum.cu:47 (inlined at /code/tsum.cu:58): "), std::string::npos)
      << text_;
  EXPECT_EQ(source_of(".loc 3 203 5"), include + "cuda_pipeline_helpers.h:203");
  EXPECT_EQ(source_of(""), "");
}

TEST_F(SourceTextTest, CallsAreTheLastOnesAboveAtTheirPosition) {
  // The same call is inlined twice; compilers name it again when what it is inlined at changes.
  constexpr std::string_view kCall =
      "  .loc 1 {0} 3\n  .loc 1 5 3, function_name $a, inlined_at 1 {0} 3\n"
      "  .loc 1 2 3, function_name $b, inlined_at 1 5 3\n";
  const std::string first = fmt::format(fmt::runtime(kCall), 8);
  const std::string second = fmt::format(fmt::runtime(kCall), 9);
  EXPECT_EQ(source_of(first + second),
            "/code/tsum.cu:2 (inlined at /code/tsum.cu:5) (inlined at /code/tsum.cu:9)");
  EXPECT_EQ(source_of(first + second + first),
            "/code/tsum.cu:2 (inlined at /code/tsum.cu:5) (inlined at /code/tsum.cu:8)");
  // Another column is another call, and one that was not named is known by its line alone.
  EXPECT_EQ(source_of(first + "  .loc 1 3 1, function_name $b, inlined_at 1 5 9"),
            "/code/tsum.cu:3 (inlined at /code/tsum.cu:5)");
}

TEST_F(SourceTextTest, HeadersOfTheToolkit) {
  for (const std::string_view file :
       {"/opt/conda/targets/sbsa-linux/include/cub/cub.cuh",
        "/v/site-packages/nvidia/cu13/include/cuda/std/atomic",
        "/v/site-packages/nvidia/cuda_runtime/include/math_functions.hpp",
        "/usr/local/cuda/include/cooperative_groups/details/helpers.h",
        "/usr/include/cooperative_groups.h", "/usr/include/crt/mma.hpp", "x/cuda_fp16.hpp",
        "sm_30_intrinsics.hpp", "C:\\CUDA\\v13\\include\\crt\\mma.hpp"}) {
    EXPECT_TRUE(is_toolkit_header(file)) << file;
  }
  for (const std::string_view file :
       {"/home/me/cuda/include/mine.cuh", "/code/cuda_helpers.h", "/code/include/mma.hpp", "crt",
        "/code/nvidia/kernels/include/mine.cuh", "sm_90_gemm.cuh", ""}) {
    EXPECT_FALSE(is_toolkit_header(file)) << file;
  }
}

}  // namespace
}  // namespace emu
