// Loads of the TMA that an mbarrier of the other block of a pair counts (cta_group::2).
#include "tensor_fixture.hpp"

namespace emu {
namespace {

class PairCopyTest : public SmallBoxTest {
 protected:
  static constexpr std::uint32_t kBlocks = 4;
  static constexpr std::size_t kResultsOfBlock = 4096;

  // Each block loads a box of its own, or one block the same for several; the first of each pair
  // waits for both.
  static std::string body(std::string_view modifiers, std::string_view operands,
                          std::string_view who, std::string_view mbarrier = "4278190079") {
    return fmt::format(R"({}
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r6, %cluster_ctarank;
  and.b32 %r7, %r6, 1;
  setp.ne.u32 %p3, %r7, 0;
  and.b32 %r8, %r3, {};
  shl.b32 %r9, %r6, 3;
  mov.b16 %rs1, 15;
  setp.ne.u32 %p4, %r6, 0;
  @%p1 bra LOADED;
  @%p3 bra EXPECTED;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {};
EXPECTED:
  {} cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{} [%r2], [%rd1, {{0, %r9}}], [%r8]{};
LOADED:
  @%p3 bra WAITED;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
WAITED:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mul.wide.u32 %rd11, %r6, {};
  add.s64 %rd3, %rd3, %rd11;
{}
)",
                       kBegin, mbarrier, 2 * kBytes, who, modifiers, operands, kResultsOfBlock,
                       move_tile(kBytes, true));
  }

  Report run_pairs(const std::string& text, std::uint64_t memory, std::uint64_t seed) {
    LaunchConfig config = one_warp(1024);
    config.grid[0] = config.cluster[0] = kBlocks;
    return run(kernel(text, kShared), memory, config, {.seed = seed});
  }

  // The rows of 64 bytes from `row` on that a block has in its shared memory.
  void expect_boxes(std::string_view modifiers, std::string_view operands, std::string_view who,
                    bool are_same) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const std::uint64_t memory = put_map(encode(desc_), kBlocks * kResultsOfBlock);
      const Report report = run_pairs(body(modifiers, operands, who), memory, seed);
      ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
      for (std::int32_t block = 0; block < static_cast<std::int32_t>(kBlocks); ++block) {
        EXPECT_EQ(
            get<std::byte>(memory + kResults + static_cast<std::size_t>(block) * kResultsOfBlock,
                           kBytes),
            tile_at(0, are_same ? 0 : 8 * block))
            << block;
      }
    }
  }

  FindingKind kind_of(const std::string& text) {
    const Report report = run_pairs(text, put_map(encode(desc_), kBlocks * kResultsOfBlock), 1);
    EXPECT_EQ(report.findings.size(), 1U);
    return report.findings.empty() ? FindingKind::kTrap : report.findings.front().kind;
  }
};

TEST_F(PairCopyTest, CountsAtTheFirstBlock) {
  expect_boxes(".cta_group::2", "", "", false);
}

TEST_F(PairCopyTest, CountsAtTheFirstBlockOfEachPair) {
  expect_boxes(".multicast::cluster.cta_group::2", ", %rs1", "@!%p4", true);
}

TEST_F(PairCopyTest, FindsMbarriersOfOtherBlocks) {
  EXPECT_EQ(kind_of(body("", "", "")), FindingKind::kIllegalOperand);
  EXPECT_EQ(kind_of(body(".cta_group::1", "", "")), FindingKind::kIllegalOperand);
  // Of another pair.
  EXPECT_EQ(kind_of(body(".cta_group::2", "", "", "4244635647")), FindingKind::kIllegalOperand);
}

}  // namespace
}  // namespace emu
