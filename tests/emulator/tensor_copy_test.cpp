// Boxes of tensors that kernels load into shared memory: what is there then, against a reference
// that goes through boxes element by element, when it may be relied on, and what is found wrong.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea_emulator/tensor_map.hpp"
#include "tensor_fixture.hpp"

namespace emu {
namespace {

TEST_F(TensorCopyTest, LoadsBoxesOfAllKinds) {
  std::set<int> ranks;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    TensorCase made = random_case(random, false);
    const std::vector<std::byte> tensor = put_tensor(made, random);
    const TensorSources sources = expected_sources(made);
    const std::uint32_t bytes = end_of(sources);
    const std::uint64_t memory = put_map(encode(made.desc), bytes);
    const std::string copy = fmt::format(
        "cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%r2+{}], [%rd1, {}], [%r3]",
        made.desc.rank, made.shared - kTile, listed(made));
    const Report report =
        run(kernel(std::string(kBegin) + load_text(sources.size(), copy) + std::string(kWait) +
                       move_tile(bytes, true),
                   kShared),
            memory, one_warp(bytes + 1024), {.seed = seed, .check_swizzle_starts = false});
    ASSERT_TRUE(report.is_clean()) << "seed " << seed << ": " << report.findings.front().text();
    ASSERT_EQ(get<std::byte>(memory + kResults, bytes), expected_tile(made, sources, tensor))
        << "seed " << seed;
    ranks.insert(made.desc.rank);
  }
  EXPECT_EQ(ranks.size(), 5U);
}

TEST_F(SmallBoxTest, MapsMayBeParameters) {
  const std::uint64_t results = device_.allocate(kResults + kBytes);
  std::string text =
      kernel("mov.b64 %rd5, map; cvta.param.u64 %rd6, %rd5;" +
                 load_and_wait("[%r2], [%rd6+128, {16, 4}], [%r3], 1152921504606846976") +
                 move_tile(kBytes, true),
             kShared);
  text.replace(text.find("(.param"), 0, "");
  const std::string_view memory = ".param .u64 memory";
  text.replace(text.find(memory), memory.size(),
               ".param .u64 memory, .param .align 64 .b8 map[256]");
  const std::string_view bytes = "complete_tx::bytes";
  text.replace(text.find(bytes), bytes.size(), "complete_tx::bytes.L2::cache_hint");
  std::vector<std::byte> parameters(64 + 256);
  std::ranges::copy(std::bit_cast<std::array<std::byte, 8>>(results), parameters.begin());
  std::ranges::copy(encode(desc_), parameters.begin() + 64 + 128);
  const Report report =
      device_.launch(device_.load(text).front(), one_warp(kBytes), parameters, {.seed = 3});
  ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
  EXPECT_EQ(get<std::byte>(results + kResults, kBytes), tile_at(16, 4));
}

// Numbers as an H200 rounds them where the map says that they are tf32; stores change nothing.
TEST_F(SmallBoxTest, LoadsOfTf32AreRounded) {
  constexpr std::array<std::array<std::uint32_t, 2>, 18> kRounded = {{
      {0x3F80'0FFF, 0x3F80'0000},
      {0x3F80'1000, 0x3F80'0000},
      {0x3F80'1001, 0x3F80'2000},
      {0x3F80'2FFF, 0x3F80'2000},
      {0xBF80'3000, 0xBF80'4000},
      {0x3F80'4000, 0x3F80'4000},
      {0x7F7F'EFFF, 0x7F7F'E000},
      {0x7F7F'F000, 0x7F80'0000},
      {0xFF7F'FFFF, 0xFF80'0000},
      {0x7F80'0000, 0x7F80'0000},
      {0xFF80'0000, 0xFF80'0000},
      {0x7F80'0001, 0x7FFF'E000},
      {0xFFC0'0000, 0x7FFF'E000},
      {0x0000'0FFF, 0x0000'0000},
      {0x8000'1001, 0x8000'2000},
      {0x007F'FFFF, 0x0080'0000},
      {0x0040'0000, 0x0040'0000},
      {0x8000'0000, 0x8000'0000},
  }};
  std::vector<std::uint32_t> numbers(8 * 16);
  std::vector<std::uint32_t> rounded(8 * 16);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = kRounded.at(i % kRounded.size())[0];
    rounded[i] = kRounded.at(i % kRounded.size())[1];
  }
  for (const TensorMapType type : {TensorMapType::kF32, TensorMapType::kF32Ftz,
                                   TensorMapType::kTF32, TensorMapType::kTF32Ftz}) {
    const bool is_rounded = type == TensorMapType::kTF32 || type == TensorMapType::kTF32Ftz;
    desc_ = {.type = type,
             .rank = 2,
             .address = put(numbers),
             .dims = {16, 8},
             .strides = {64},
             .box = {16, 8},
             .swizzle = TensorMapSwizzle::kNone};
    const std::uint64_t memory = put_map(encode(desc_), kBytes);
    const std::string body =
        load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]") + move_tile(kBytes, true);
    const Report report = run(kernel(body, kShared), memory, one_warp(kBytes), {.seed = 1});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    EXPECT_EQ(get<std::uint32_t>(memory + kResults, numbers.size()),
              is_rounded ? rounded : numbers);
  }
}

// Before the mbarrier's phase ends there is nothing to rely on.
TEST_F(SmallBoxTest, LoadsAreLate) {
  const std::string body = load("[%r2], [%rd1, {0, 0}], [%r3]") + "WAIT: bar.warp.sync -1;" +
                           move_tile(kBytes, true) +
                           // it has to come before the block ends
                           "LATE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;"
                           "@!%p2 bra LATE;";
  int whole = 0;
  int untouched = 0;
  int part = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::uint64_t memory = put_map(encode(desc_), kBytes);
    const Report report = run(kernel(body, kShared), memory, one_warp(kBytes), values_of(seed));
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    const auto found = get<std::byte>(memory + kResults, kBytes);
    const bool is_whole = found == tile_at(0, 0);
    const bool is_untouched = found == std::vector<std::byte>(kBytes, kNotWritten);
    whole += is_whole ? 1 : 0;
    untouched += is_untouched ? 1 : 0;
    part += is_whole || is_untouched ? 0 : 1;
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(untouched, 10);
  EXPECT_GT(part, 0);
}

// What has come counts as written when the phase ends, and not before: it steers a branch.
TEST_F(SmallBoxTest, WhatHasNotAllComeIsNoValue) {
  const std::string use =
      "ld.shared.u32 %r9, [%r2+256]; setp.eq.u32 %p3, %r9, 0;"
      "@%p3 bra LATE; LATE: mbarrier.try_wait.parity.shared::cta.b64 %p2, "
      "[%r3], 0; @!%p2 bra LATE;";
  const std::string early = load("[%r2], [%rd1, {0, 0}], [%r3]") + "WAIT: bar.warp.sync -1;" + use;
  EXPECT_EQ(findings_of(early, Policy::kLazy), FindingKinds{FindingKind::kUninitialized});
  EXPECT_EQ(findings_of(early, Policy::kUniform), FindingKinds{FindingKind::kUninitialized});
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]") + use), FindingKinds{});
}

// Whatever was there before is lost when the load starts.
TEST_F(SmallBoxTest, TheDestinationIsLostFromTheStartOn) {
  const std::string fill = "st.shared.u32 [%r2], 7; bar.sync 0;";
  const std::string start = load_text(kBytes, std::string(kLoad) + " [%r2], [%rd1, {0, 0}], [%r3]");
  const std::string read = "WAIT: bar.warp.sync -1; ld.shared.u32 %r9, [%r2];";
  const std::string end =
      "st.global.u32 [%rd3+256], %r9;"
      "LATE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra LATE;";
  const std::uint64_t memory = put_map(encode(desc_), kBytes);
  const Report report = run(kernel(std::string(kBegin) + fill + start + read + end, kShared),
                            memory, one_warp(kBytes), values_of(0, Policy::kLazy));
  ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
  EXPECT_EQ(get<std::uint32_t>(memory + kResults, 1).front(), 0xCBCBCBCBU);
  EXPECT_EQ(findings_of(std::string(kBegin) + fill + start + read +
                            "setp.eq.u32 %p3, %r9, 0; @%p3 bra LATE;" + end,
                        Policy::kLazy),
            FindingKinds{FindingKind::kUninitialized});
}

// What nothing wrote is no value when it has been copied, but what is out of bounds is.
TEST_F(SmallBoxTest, LoadsKeepWhatIsNoValue) {
  desc_.address = device_.allocate(40 * 128);
  const auto body = [&](std::string_view row) {
    return load_and_wait(fmt::format("[%r2], [%rd1, {{0, {}}}], [%r3]", row)) +
           "ld.shared.u32 %r9, [%r2]; setp.eq.u32 %p3, %r9, 0; @%p3 bra LATE; LATE:";
  };
  EXPECT_EQ(findings_of(body("0")), FindingKinds{FindingKind::kUninitialized});
  EXPECT_EQ(findings_of(body("-1")), FindingKinds{});
  device_.write(desc_.address, matrix_);
  EXPECT_EQ(findings_of(body("0")), FindingKinds{});
}

// Bytes are counted as they come: a phase that expects too few may end before all are there.
TEST_F(SmallBoxTest, BytesAreCountedInParts) {
  EXPECT_EQ(
      findings_of(load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]", kBytes / 2), Policy::kUniform),
      (FindingKinds{FindingKind::kBarrierMisuse, FindingKind::kDeadlock}));
}

// The source is read when the copy gets to it: what another thread writes meanwhile may be copied.
TEST_F(SmallBoxTest, LoadsReadTheirSourceLate) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SetUp();
    const std::uint64_t memory = put_map(encode(desc_), kBytes);
    const std::string write =
        fmt::format("mov.u64 %rd7, {}; st.global.u32 [%rd7], 123456789;", desc_.address);
    const Report report = run(kernel(load("[%r2], [%rd1, {0, 0}], [%r3]") + write +
                                         std::string(kWait) + move_tile(kBytes, true),
                                     kShared),
                              memory, one_warp(kBytes), values_of(seed));
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    changed += get<std::uint32_t>(memory + kResults, 1).front() == 123456789U ? 1 : 0;
  }
  EXPECT_GT(changed, 5);
  EXPECT_LT(changed, 40);
}

TEST_F(SmallBoxTest, WrongByteCountsAreFound) {
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]", kBytes + 16)),
            FindingKinds{FindingKind::kDeadlock});
  EXPECT_NE(last_.text().find("16 bytes awaited"), std::string::npos) << last_.text();
  // Bytes outside of the tensor count as well.
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, -4}], [%r3]", kBytes / 2), Policy::kEager),
            (FindingKinds{FindingKind::kBarrierMisuse, FindingKind::kDeadlock}));
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 1000}], [%r3]", 0), Policy::kLazy),
            FindingKinds{FindingKind::kLifetime});
}

TEST_F(SmallBoxTest, IllegalMapsAreFound) {
  const FindingKinds illegal{FindingKind::kIllegalTensorMap};
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1+32, {0, 0}], [%r3]")), illegal);
  EXPECT_NE(last_.text().find("not a multiple of 64"), std::string::npos) << last_.text();
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]"), Policy::kUniform, 1,
                        [](auto& map) { map[40] ^= std::byte{1}; }),
            illegal);
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]"), Policy::kUniform, 1,
                        [](auto& map) { map.fill(std::byte{0}); }),
            illegal);
  EXPECT_EQ(findings_of("mov.b64 %rd7, tile; cvta.shared.u64 %rd8, %rd7;" +
                        load_and_wait("[%r2], [%rd8, {0, 0}], [%r3]")),
            illegal);
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1+256, {0, 0}], [%r3]")),
            FindingKinds{FindingKind::kUninitialized});
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [4096, {0, 0}], [%r3]")),
            FindingKinds{FindingKind::kOutOfBounds});
  desc_.rank = 3;
  desc_.dims[2] = desc_.box[2] = 1;
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]")), illegal);
  EXPECT_NE(last_.text().find("3 dimensions, but the instruction has 2"), std::string::npos)
      << last_.text();
}

TEST_F(SmallBoxTest, RowsBeginAtMultiplesOf16Bytes) {
  for (const int first : {-16, -8, 0, 8, 24}) {
    EXPECT_EQ(findings_of(load_and_wait(fmt::format("[%r2], [%rd1, {{{}, 0}}], [%r3]", first))),
              FindingKinds{})
        << first;
  }
  for (const int first : {-1, 1, 4, 12}) {
    EXPECT_EQ(findings_of(load_and_wait(fmt::format("[%r2], [%rd1, {{{}, 0}}], [%r3]", first))),
              FindingKinds{FindingKind::kIllegalOperand})
        << first;
  }
}

TEST_F(SmallBoxTest, WrongPlacesAreFound) {
  const auto found = [&](std::string_view operands) {
    return findings_of(load_and_wait(operands));
  };
  EXPECT_EQ(found("[%r2+64], [%rd1, {0, 0}], [%r3]"), FindingKinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2+1536], [%rd1, {0, 0}], [%r3]"), FindingKinds{});
  EXPECT_EQ(found("[%r2+1664], [%rd1, {0, 0}], [%r3]"), FindingKinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(found("[%r2+-1152], [%rd1, {0, 0}], [%r3]"), FindingKinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(found("[%r2+16777216], [%rd1, {0, 0}], [%r3]"),
            FindingKinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(found("[%r2], [%rd1, {0, 0}], [%r3+4]"), FindingKinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2], [%rd1, {0, 0}], [%r3+8]"), FindingKinds{FindingKind::kBarrierMisuse});
  EXPECT_EQ(found("[%r2], [%rd1, {%r9, 0}], [%r3]"), FindingKinds{FindingKind::kUninitialized});
  EXPECT_EQ(found("[%r9], [%rd1, {0, 0}], [%r3]"), FindingKinds{FindingKind::kUninitialized});
  EXPECT_EQ(found("[%r2], [%rd9, {0, 0}], [%r3]"), FindingKinds{FindingKind::kUninitialized});
  EXPECT_EQ(found("[%r2], [%rd1, {0, 0}], [%r9]"), FindingKinds{FindingKind::kUninitialized});
  // The box lies over the mbarrier that waits for it.
  EXPECT_EQ(findings_of(std::string(kBegin) +
                        "@%p1 bra WAIT; mbarrier.init.shared::cta.b64 [%r2+128], 1;"
                        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+128], 512;" +
                        std::string(kLoad) + " [%r2], [%rd1, {0, 0}], [%r2+128];" +
                        "WAIT: bar.warp.sync -1;"
                        "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+128], 0; "
                        "@!%p2 bra W;"),
            FindingKinds{FindingKind::kBarrierMisuse});
  // It has to be there when the load starts.
  EXPECT_EQ(findings_of(load("[%r2], [%rd1, {0, 0}], [%r3+8]") +
                            "mbarrier.init.shared::cta.b64 [%r3+8], 1;"
                            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3+8], 512;"
                            "mbarrier.arrive.shared::cta.b64 _, [%r3+8]; WAIT: bar.warp.sync -1;"
                            "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+8], 0;"
                            "@!%p2 bra W;",
                        Policy::kLazy),
            FindingKinds{FindingKind::kBarrierMisuse});
  // A tensor that is larger than what is allocated.
  desc_.dims[1] = 48;
  EXPECT_EQ(found("[%r2], [%rd1, {0, 32}], [%r3]"), FindingKinds{});
  EXPECT_EQ(found("[%r2], [%rd1, {0, 33}], [%r3]"), FindingKinds{FindingKind::kOutOfBounds});
}

TEST_F(SmallBoxTest, BlocksMayNotEndBeforeTheirLoads) {
  const std::string body = load("[%r2], [%rd1, {0, 0}], [%r3]") + "WAIT:";
  EXPECT_EQ(findings_of(body, Policy::kLazy), FindingKinds{FindingKind::kLifetime});
  EXPECT_NE(last_.text().find("cp.async.bulk.tensor.2d"), std::string::npos) << last_.text();
}

// As one block of four loads it for those of a mask, at the same place in each.
TEST_F(SmallBoxTest, MulticastGoesToEachBlockOfTheMask) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::uint32_t mask = 1 + static_cast<std::uint32_t>(seed * 7 % 15);
    const std::uint32_t issuer = static_cast<std::uint32_t>(seed / 3 % 4);
    const std::uint64_t memory = put_map(encode(desc_), 4 * kBytes);
    const std::string body = std::string(kBegin) +
                             fmt::format(R"(
  mov.u32 %r10, %cluster_ctarank;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  shl.b32 %r11, 1, %r10;
  and.b32 %r11, %r11, {0};
  setp.eq.u32 %p4, %r11, 0;
  or.pred %p6, %p1, %p4;
  @%p6 bra NOT_MINE;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {2};
NOT_MINE:
  setp.ne.u32 %p6, %r10, {1};
  or.pred %p6, %p6, %p1;
  @%p6 bra ISSUED;
  mov.u16 %rs1, {0};
  mov.u64 %rd8, 1152921504606846976;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r2], [%rd1, {{40, 36}}], [%r3], %rs1, %rd8;
ISSUED:
  @%p4 bra ALL;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
ALL:
  mad.wide.u32 %rd3, %r10, {2}, %rd3;)",
                                         mask, issuer, kBytes) +
                             move_tile(kBytes, true) +
                             "barrier.cluster.arrive.aligned;"
                             "barrier.cluster.wait.aligned;";
    LaunchConfig config = one_warp(kBytes);
    config.grid[0] = config.cluster[0] = 4;
    const Report report = run(kernel(body, kShared), memory, config, {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << "seed " << seed << ": " << report.findings.front().text();
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const auto found = get<std::byte>(memory + kResults + rank * kBytes, kBytes);
      EXPECT_EQ(found, (mask >> rank & 1U) != 0 ? tile_at(40, 36)
                                                : std::vector<std::byte>(kBytes, kNotWritten))
          << "seed " << seed << " block " << rank;
    }
  }
}

// Without a mask the box may go to another block, and to an mbarrier of that one alone.
TEST_F(SmallBoxTest, LoadsReachOtherBlocks) {
  const auto body = [&](std::string_view operands, std::string_view form) {
    return std::string(kBegin) +
           fmt::format(R"(
  mov.u32 %r10, %cluster_ctarank;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  setp.ne.u32 %p4, %r10, 0;
  or.pred %p6, %p1, %p4;
  @%p6 bra ISSUED;
  mapa.shared::cluster.u32 %r12, %r2, 1;
  mapa.shared::cluster.u32 %r13, %r3, 1;
  cp.async.bulk.tensor.2d.{}.global.tile.mbarrier::complete_tx::bytes{};
ISSUED:
  @!%p4 bra END;
  @%p1 bra WAIT;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;)",
                       form, operands) +
           move_tile(kBytes, true) +
           "END: barrier.cluster.arrive.aligned;"
           "barrier.cluster.wait.aligned;";
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::uint64_t memory = put_map(encode(desc_), kBytes);
    LaunchConfig config = one_warp(kBytes);
    config.grid[0] = config.cluster[0] = 2;
    const Report report =
        run(kernel(body(" [%r12], [%rd1, {32, 8}], [%r13]", "shared::cluster"), kShared), memory,
            config, {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    EXPECT_EQ(get<std::byte>(memory + kResults, kBytes), tile_at(32, 8));
  }
  const auto found = [&](std::string_view operands, std::string_view form = "shared::cluster") {
    return findings_of(body(operands, form), Policy::kFromSeed, 2);
  };
  EXPECT_EQ(found(" [%r12], [%rd1, {0, 0}], [%r3]"), FindingKinds{FindingKind::kIllegalOperand});
  EXPECT_EQ(found(" [%r2], [%rd1, {0, 0}], [%r13]"), FindingKinds{FindingKind::kIllegalOperand});
  EXPECT_EQ(found(" [%r12], [%rd1, {0, 0}], [%r13]", "shared::cta"),
            FindingKinds{FindingKind::kOutOfBounds});
  for (const std::string_view mask : {"4", "7", "0"}) {
    EXPECT_EQ(found(fmt::format(".multicast::cluster [%r2], [%rd1, {{0, 0}}], [%r3], {}", mask)),
              FindingKinds{FindingKind::kIllegalOperand});
  }
}

}  // namespace
}  // namespace emu
