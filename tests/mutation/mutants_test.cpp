// Instructions that are found in PTX, and what becomes of them.
#include "lab/mutation/mutants.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "fovea_emulator/device.hpp"
#include "lab/mutation/ptx_text.hpp"

namespace fovea::mutation {
namespace {

// Line 1 is the .version.
constexpr std::string_view kPtx = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry other(.param .u32 n)
{
  .reg .b32 %r<2>;
  mov.u32 %r1, 7;
  bar.sync 0;
  ret;
}
.visible .entry
pipe(
  .param .u64 to
)
.maxntid 64, 1, 1
{
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<3>;
  .shared .align 16 .b8 memory[2048];
  .loc 2 12 3
  mov.u32 %r1, memory;
  mov.u32 %r2, %tid.x;
  setp.ne.u32 %p1, %r2, 0;
  mov.u32 %r3, 64;
  xor.b32 %r4, %r2, 32;
  xor.b32 %r4, %r4, -2147483648;
  @!%p1 mbarrier.init.shared::cta.b64 [%r1], %r3;
  bar.sync 0;
  .loc 1 20 3, function_name $L__info_string0, inlined_at 2 7 3
  mbarrier.arrive.shared::cta.b64 _, [%r1];
  // begin inline asm
  {
.reg .pred done;
mbarrier.try_wait.parity.shared::cta.b64 done, [%r1],
  %r8;
selp.u32 %r5, 1, 0, done;
}
  // end inline asm
$again:
  cp.async.wait_group 1;
  shr.u32 %r6, %r2, 5; bar.sync %r6, %r3;
  @%p1 bra $again;
  ret;
}
.file 1 "kernels/ptx/mbarrier.cuh"
.file 2 "kernels/pipe.cuh"
)";

const Statement& find(const std::vector<Statement>& all, std::string_view opcode) {
  const auto found =
      std::ranges::find_if(all, [&](const Statement& statement) { return statement.is(opcode); });
  EXPECT_NE(found, all.end()) << opcode;
  return *found;
}

std::vector<PtxMutant> of_kind(const std::vector<PtxMutant>& all, std::string_view kind) {
  std::vector<PtxMutant> found;
  std::ranges::copy_if(all, std::back_inserter(found),
                       [&](const PtxMutant& mutant) { return mutant.kind == kind; });
  return found;
}

std::string line_of(std::string_view text, int number) {
  for (; number > 1; --number) {
    text.remove_prefix(text.find('\n') + 1);
  }
  return std::string(text.substr(0, text.find('\n')));
}

TEST(PtxTextTest, AKernelsInstructionsWithTheirPlaces) {
  const std::vector<Statement> all = parse_statements(kPtx, "pipe");
  EXPECT_EQ(all.size(), 16U);
  const Statement& init = find(all, "mbarrier.init");
  EXPECT_EQ(init.guard, "@!%p1");
  EXPECT_EQ(init.line, 28);
  EXPECT_EQ(init.source, "kernels/pipe.cuh:12");
  EXPECT_EQ(init.operands, (std::vector<std::string_view>{"[%r1]", "%r3"}));
  const Statement& wait = find(all, "mbarrier.try_wait");
  EXPECT_EQ(wait.line, 35);
  EXPECT_EQ(wait.source, "kernels/ptx/mbarrier.cuh:20");
  EXPECT_EQ(wait.operands, (std::vector<std::string_view>{"done", "[%r1]", "%r8"}));
  EXPECT_EQ(find(all, "selp").line, 37);  // behind one of two lines
  EXPECT_EQ(find(all, "cp.async.wait_group").line, 41);
  EXPECT_EQ(all.back().opcode, "ret");
  EXPECT_EQ(parse_statements(kPtx, "other").size(), 3U);
  EXPECT_THROW(static_cast<void>(parse_statements(kPtx, "pip")), Error);
}

TEST(PtxTextTest, AnOpcodesBeginningEndsAtADot) {
  const Statement arrive{.opcode = "mbarrier.arrive_drop.shared.b64"};
  EXPECT_TRUE(arrive.is("mbarrier.arrive_drop"));
  EXPECT_FALSE(arrive.is("mbarrier.arrive"));
}

TEST(PtxTextTest, OtherKernelsGoAndLinesStay) {
  const std::string text = with_only(kPtx, {"pipe"});
  EXPECT_EQ(std::ranges::count(text, '\n'), std::ranges::count(kPtx, '\n'));
  EXPECT_EQ(text.find("other"), std::string::npos);
  emu::Device device;
  const std::vector<emu::KernelHandle> kernels = device.load(text);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels.front().name, "pipe");
}

TEST(PtxMutantTest, EachSiteOnItsOwn) {
  const std::vector<PtxMutant> all = make_mutants(kPtx, "pipe");
  const auto lines_of = [&](std::string_view kind) {
    std::vector<int> lines;
    for (const PtxMutant& mutant : of_kind(all, kind)) {
      lines.push_back(mutant.line);
    }
    return lines;
  };
  EXPECT_EQ(lines_of("no bar.sync"), (std::vector{29, 42}));
  EXPECT_EQ(lines_of("no mbarrier.arrive"), std::vector{31});
  EXPECT_EQ(lines_of("no mbarrier.try_wait"), std::vector{35});
  EXPECT_EQ(lines_of("parity flipped"), std::vector{35});
  EXPECT_EQ(lines_of("mbarrier of one arrival more"), std::vector{28});
  EXPECT_EQ(lines_of("mbarrier of one arrival fewer"), std::vector{28});
  EXPECT_EQ(lines_of("no cp.async.wait_group"), std::vector{41});
  EXPECT_EQ(lines_of("cp.async.wait_group leaves one more"), std::vector{41});
  EXPECT_EQ(lines_of("barrier of all groups"), std::vector{42});
  EXPECT_EQ(lines_of("barrier of a warp more"), std::vector{42});
  EXPECT_EQ(lines_of("barrier of a warp fewer"), std::vector{42});
  EXPECT_EQ(lines_of("xor dropped"), std::vector{26});  // not that of a sign
  EXPECT_EQ(all.size(), 13U);
}

TEST(PtxMutantTest, OneInstructionDiffersAndTheEmulatorReadsIt) {
  for (const PtxMutant& mutant : make_mutants(kPtx, "pipe")) {
    const std::string text = mutant.applied(kPtx);
    EXPECT_NE(text, kPtx) << mutant.kind;
    EXPECT_EQ(std::ranges::count(text, '\n'), std::ranges::count(kPtx, '\n')) << mutant.kind;
    EXPECT_EQ(text.substr(0, mutant.begin), kPtx.substr(0, mutant.begin)) << mutant.kind;
    EXPECT_TRUE(text.ends_with(kPtx.substr(mutant.begin + mutant.length))) << mutant.kind;
    emu::Device device;
    EXPECT_EQ(device.load(text).size(), 2U) << mutant.kind;
  }
}

TEST(PtxMutantTest, GuardsStay) {
  constexpr std::string_view kGuarded = R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry one()
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  @%p1 xor.b32 %r1, %r2, 64;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;
  ret;
}
)";
  const std::vector<PtxMutant> all = make_mutants(kGuarded, "one");
  EXPECT_EQ(line_of(of_kind(all, "xor dropped").at(0).applied(kGuarded), 8),
            "  @%p1 mov.b32 %r1, %r2;");
  EXPECT_EQ(line_of(of_kind(all, "16 bytes more awaited").at(0).applied(kGuarded), 9),
            "  { .reg .b32 %fovea_mutant; add.u32 %fovea_mutant, 128, 16; @%p1 "
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %fovea_mutant; }");
  EXPECT_EQ(line_of(of_kind(all, "no mbarrier.arrive.expect_tx").at(0).applied(kGuarded), 9), "  ");
}

TEST(PtxMutantTest, FieldsOfDescriptorsThatMeanSomething) {
  const auto kinds_of = [](std::string_view product) {
    const std::string text = ".visible .entry one()\n{\n" + std::string(product) + "\nret;\n}\n";
    std::multiset<std::string> kinds;
    for (const PtxMutant& mutant : make_mutants(text, "one")) {
      kinds.insert(mutant.kind);
    }
    return kinds;
  };
  const std::string start = "descriptor: start 32 bytes off";
  const std::string leading = "descriptor: leading offset";
  const auto transposed_b = [&](int columns) {
    return kinds_of(fmt::format(
        "wgmma.mma_async.sync.aligned.m64n{}k16.f32.bf16.bf16 {{%f1, %f2, %f3, %f4}}, {{%r1, %r2, "
        "%r3, %r4}}, %rd1, p, 1, 1, 1;",
        columns));
  };
  EXPECT_EQ(transposed_b(72).size(), 4U);
  EXPECT_EQ(transposed_b(72).count(leading), 1U);
  EXPECT_EQ(transposed_b(64).size(), 3U);
  EXPECT_EQ(transposed_b(64).count(leading), 0U);  // one span of the swizzle
  const auto descriptors = kinds_of(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, "
      "1, 0, 0;");
  EXPECT_EQ(descriptors.count(start), 2U);
  EXPECT_EQ(descriptors.count(leading), 0U);
  EXPECT_EQ(kinds_of("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1, %r2, %r3, %r4}, %rd1, "
                     "%rd2, p;")
                .count("descriptor: swizzle"),
            2U);
}

TEST(PtxMutantTest, WhatTensorMemoryDependsOn) {
  constexpr std::string_view kUses = R"(.visible .entry one()
{
  tcgen05.cp.cta_group::2.32x128b.warpx4 [%r1], %rd1;
  @%p1 tcgen05.mma.cta_group::2.kind::f8f6f4 [%r1], %rd1, %rd2, %r2, %p2;
  tcgen05.mma.cta_group::2.kind::f16 [%r1], [%r3], %rd2, %r2, %p2;
  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r4];
  tcgen05.fence::after_thread_sync;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r1];
  tcgen05.wait::ld.sync.aligned;
  tcgen05.fence::before_thread_sync;
  tcgen05.wait::st.sync.aligned;
  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, 32;
  ret;
}
)";
  std::multiset<std::string> kinds;
  for (const PtxMutant& mutant : make_mutants(kUses, "one")) {
    kinds.insert(mutant.kind);
  }
  for (const std::string_view deleted : {"cp", "commit", "fence::after_thread_sync", "wait::ld",
                                         "fence::before_thread_sync", "wait::st", "dealloc"}) {
    EXPECT_EQ(kinds.count("no tcgen05." + std::string(deleted)), 1U) << deleted;
  }
  EXPECT_EQ(kinds.count("descriptor: start 32 bytes off"), 3U);  // not of A in tensor memory
  EXPECT_EQ(kinds.count("descriptor: leading offset"), 0U);
  EXPECT_EQ(kinds.count("instruction descriptor: columns"), 2U);
  EXPECT_EQ(line_of(of_kind(make_mutants(kUses, "one"), "instruction descriptor: A's type")
                        .at(0)
                        .applied(kUses),
                    4),
            "  { .reg .b32 %fovea_mutant; xor.b32 %fovea_mutant, %r2, 0x80; @%p1 "
            "tcgen05.mma.cta_group::2.kind::f8f6f4 [%r1], %rd1, %rd2, %fovea_mutant, %p2; }");
}

TEST(PtxMutantTest, ABarrierThatOthersArriveAtHasAnotherNumber) {
  constexpr std::string_view kArrives = R"(.visible .entry one()
{
  .reg .b32 %r<3>;
  bar.arrive %r1, 64;
  bar.sync %r1, 64;
}
)";
  const std::vector<PtxMutant> all = make_mutants(kArrives, "one");
  EXPECT_EQ(of_kind(all, "barrier of another number").size(), 2U);
  EXPECT_EQ(of_kind(all, "barrier of all groups").size(), 0U);
  EXPECT_EQ(of_kind(all, "no bar.arrive").size(), 1U);

  // A number that is the same for all is nobody's own.
  constexpr std::string_view kOne = R"(.visible .entry one()
{
  mov.u32 %r1, 1;
  mov.u32 %r2, %tid.y;
  bar.sync %r1, 64;
  bar.sync %r2, 64;
}
)";
  const std::vector<PtxMutant> groups = of_kind(make_mutants(kOne, "one"), "barrier of all groups");
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].line, 6);
}

TEST(TensorMapMutantTest, AnotherSwizzleThatTheBoxAllows) {
  gpu::TensorMapDesc map{
      .type = gpu::TensorMapType::kBF16, .box = {64, 8}, .swizzle = gpu::Swizzle::k128};
  EXPECT_TRUE(change_swizzle(map));
  EXPECT_EQ(map.swizzle, gpu::Swizzle::kNone);
  EXPECT_TRUE(change_swizzle(map));
  EXPECT_EQ(map.swizzle, gpu::Swizzle::k128);
  gpu::TensorMapDesc wide{.type = gpu::TensorMapType::kF32, .box = {64, 8}};
  EXPECT_FALSE(change_swizzle(wide));
  EXPECT_EQ(wide.swizzle, gpu::Swizzle::kNone);
}

}  // namespace
}  // namespace fovea::mutation
