// What users are told of operators that do not run as they might expect.
#include "gpu/launch/notes.hpp"

#include <string>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"

namespace fovea::gpu {
namespace {

DeviceInfo device(int major) {
  return {
      .name = "a GPU", .compute_major = major, .sm_count = 132, .shared_bytes_per_block = 232448};
}

TEST(Notes, TellOfEachKindOfProductOnce) {
  if (kernel_images().empty()) {
    GTEST_SKIP() << "built without kernels";
  }
  Notes notes;
  EXPECT_EQ(notes.take(), "");
  GemmProblem problem{.m = 196, .n = 20, .k = 64};
  notes.add(problem, can_run(problem, device(9)).why, device(9));
  const std::string note = notes.take();
  EXPECT_NE(note.find("cuBLASLt computes gemm (196, 20)"), std::string::npos) << note;
  EXPECT_NE(note.find("multiples of 16"), std::string::npos) << note;
  problem.m = 392;
  notes.add(problem, can_run(problem, device(9)).why, device(9));
  EXPECT_EQ(notes.take(), "");
  problem.n = 24;
  notes.add(problem, can_run(problem, device(9)).why, device(9));
  problem.epilogue = GemmEpilogue::kGelu;
  notes.add(problem, can_run(problem, device(9)).why, device(9));
  const std::string more = notes.take();
  EXPECT_NE(more.find("; cuBLASLt computes gemm (392, 24) = gelu"), std::string::npos) << more;
}

TEST(Notes, TellEachTextOnce) {
  Notes notes;
  notes.add("attention runs at level mma");
  notes.add("attention runs at level wmma");
  notes.add("attention runs at level mma");
  EXPECT_EQ(notes.take(), "attention runs at level mma; attention runs at level wmma");
  notes.add("attention runs at level mma");
  EXPECT_EQ(notes.take(), "");
}

// There every product is cuBLASLt's, as the documents say.
TEST(Notes, AreNoNewsOnGpusWithoutKernelsForProducts) {
  Notes notes;
  notes.add({.m = 196, .n = 20, .k = 64}, "why", device(8));
  notes.add({.m = 196, .n = 768, .k = 768}, "why", device(8));
  EXPECT_EQ(notes.take(), "");
}

}  // namespace
}  // namespace fovea::gpu
