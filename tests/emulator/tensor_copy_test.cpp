// Copies of the TMA in small kernels: what they leave in memory, against a reference that goes
// through boxes element by element, when they may be relied on, and what is found wrong with them.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/error.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "tensor_reference.hpp"

namespace emu {
namespace {

constexpr std::string_view kShared =
    ".shared .align 8 .b8 bar[16]; .extern .shared .align 1024 .b8 tile[];";
// Where `tile` is, and where in memory results are, behind the map.
constexpr std::uint32_t kTile = 2048;
constexpr std::uint64_t kResults = 256;
constexpr std::byte kNotWritten{0xCB};

// The tile's address in %r2, an mbarrier's for one thread in %r3; %p1 holds but for thread 0.
constexpr std::string_view kBegin = R"(
  mov.u32 %r2, tile;
  mov.u32 %r3, bar;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;)";

constexpr std::string_view kWait = R"(
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;)";

// Copies the tile's first bytes to the results, or the other way round.
std::string move_tile(std::uint32_t bytes, bool is_out) {
  return fmt::format(R"(
  shl.b32 %r20, %r1, 2;
  add.u32 %r20, %r2, %r20;
  add.s64 %rd10, %rd3, {};
  mov.u32 %r21, 0;
MOVE:
  {}
  add.u32 %r20, %r20, 128;
  add.s64 %rd10, %rd10, 128;
  add.u32 %r21, %r21, 128;
  setp.lt.u32 %p5, %r21, {};
  @%p5 bra MOVE;)",
                     kResults,
                     is_out ? "ld.shared.u32 %r22, [%r20]; st.global.u32 [%rd10], %r22;"
                            : "ld.global.u32 %r22, [%rd10]; st.shared.u32 [%r20], %r22;",
                     bytes);
}

std::string listed(const TensorCase& made) {
  return fmt::format("{{{}}}", fmt::join(std::span(made.coordinates).first(made.desc.rank), ", "));
}

// Thread 0 expects the bytes and starts the load.
std::string load_text(std::uint64_t bytes, std::string_view copy) {
  return fmt::format("@%p1 bra WAIT; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {}; {};",
                     bytes, copy);
}

class TensorCopyTest : public DeviceTest {
 protected:
  std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random());
    }
    return bytes;
  }

  // The case's tensor in the device's memory, filled with numbers.
  std::vector<std::byte> put_tensor(TensorCase& made, std::mt19937_64& random) {
    std::size_t bytes = made.desc.dims[0] * made.element;
    for (std::size_t i = 1; i < static_cast<std::size_t>(made.desc.rank); ++i) {
      bytes += (made.desc.dims.at(i) - 1) * made.desc.strides.at(i - 1);
    }
    std::vector<std::byte> tensor = random_bytes(random, bytes);
    made.desc.address = put(tensor);
    return tensor;
  }

  // Memory that begins with the map.
  std::uint64_t put_map(const std::array<std::byte, kTensorMapBytes>& map, std::size_t results) {
    const std::uint64_t memory = device_.allocate(kResults + results);
    device_.write(memory, map);
    return memory;
  }

  static std::uint32_t end_of(const TensorSources& sources) {
    return (sources.rbegin()->first - kTile + 128) / 128 * 128;
  }

  static LaunchConfig one_warp(std::uint32_t shared) {
    return {.block = {32, 1, 1}, .dynamic_shared_bytes = shared};
  }

  // What the tile's bytes must be.
  static std::vector<std::byte> expected_tile(const TensorCase& made, const TensorSources& sources,
                                              const std::vector<std::byte>& tensor) {
    std::vector<std::byte> tile(end_of(sources), kNotWritten);
    for (const auto& [address, source] : sources) {
      const bool is_last = address % made.element == made.element - 1;
      const std::byte fill = made.desc.fill == TensorMapFill::kZero ? std::byte{0}
                             : is_last                              ? std::byte{0x7F}
                                                                    : std::byte{0xFF};
      tile.at(address - kTile) = source == 0 ? fill : tensor.at(source - made.desc.address);
    }
    return tile;
  }

  static TensorCase random_case(std::mt19937_64& random, bool is_disjoint) {
    TensorCase made = random_tensor_case(random, is_disjoint);
    made.shared = kTile + static_cast<std::uint32_t>(random() % 16 * 128);
    return made;
  }
};

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
    const Report report = run(kernel(std::string(kBegin) + load_text(sources.size(), copy) +
                                         std::string(kWait) + move_tile(bytes, true),
                                     kShared),
                              memory, one_warp(bytes + 1024), {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << "seed " << seed << ": " << report.findings.front().text();
    ASSERT_EQ(get<std::byte>(memory + kResults, bytes), expected_tile(made, sources, tensor))
        << "seed " << seed;
    ranks.insert(made.desc.rank);
  }
  EXPECT_EQ(ranks.size(), 5U);
}

TEST_F(TensorCopyTest, StoresBoxesOfAllKinds) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    TensorCase made = random_case(random, true);
    for (std::int32_t& coordinate : made.coordinates) {
      coordinate = std::max(coordinate, 0);
    }
    std::vector<std::byte> tensor = put_tensor(made, random);
    const TensorSources sources = expected_sources(made);
    const std::uint32_t bytes = end_of(sources);
    const std::vector<std::byte> tile = random_bytes(random, bytes);
    const std::uint64_t memory = put_map(encode(made.desc), bytes);
    device_.write(memory + kResults, tile);
    const std::string store = fmt::format(R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 bra DONE;
  cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group [%rd1, {}], [%r2+{}];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
DONE:)",
                                          made.desc.rank, listed(made), made.shared - kTile);
    const Report report =
        run(kernel(std::string(kBegin) + move_tile(bytes, false) + store, kShared), memory,
            one_warp(bytes), {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << "seed " << seed << ": " << report.findings.front().text();
    for (const auto& [address, source] : sources) {
      if (source != 0) {
        tensor.at(source - made.desc.address) = tile.at(address - kTile);
      }
    }
    ASSERT_EQ(get<std::byte>(made.desc.address, tensor.size()), tensor) << "seed " << seed;
  }
}

// A matrix of 40 rows of 64 numbers of 16 bits, and boxes of 8 rows of 32.
class SmallBoxTest : public TensorCopyTest {
 protected:
  static constexpr std::uint32_t kBytes = 512;
  static constexpr std::string_view kLoad =
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
  static constexpr std::string_view kStore =
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";

  void SetUp() override {
    std::mt19937_64 random(1);
    matrix_ = random_bytes(random, 40 * 128);
    desc_ = {.type = TensorMapType::kBF16,
             .rank = 2,
             .address = put(matrix_),
             .dims = {64, 40},
             .strides = {128},
             .box = {32, 8},
             .swizzle = TensorMapSwizzle::k64};
  }

  // The tile of the box at (column, row).
  std::vector<std::byte> tile_at(std::int32_t column, std::int32_t row) {
    const TensorCase made{
        .desc = desc_, .element = 2, .shared = kTile, .coordinates = {column, row}};
    return expected_tile(made, expected_sources(made), matrix_);
  }

  static std::string load(std::string_view operands, std::uint64_t bytes = kBytes) {
    return std::string(kBegin) + load_text(bytes, fmt::format("{} {}", kLoad, operands));
  }
  static std::string load_and_wait(std::string_view operands, std::uint64_t bytes = kBytes) {
    return load(operands, bytes) + std::string(kWait);
  }

  // The kinds of findings over seeds, with a map that `change` has changed in memory.
  std::set<FindingKind> findings_of(
      const std::string& body, Policy policy = Policy::kFromSeed, std::uint32_t blocks = 1,
      const std::function<void(std::array<std::byte, kTensorMapBytes>&)>& change = {}) {
    std::set<FindingKind> kinds;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      auto map = encode(desc_);
      if (change) {
        change(map);
      }
      LaunchConfig config = one_warp(2048);
      config.grid[0] = config.cluster[0] = blocks;
      const Report report =
          run(kernel(body, kShared), put_map(map, 8192), config, {.seed = seed, .policy = policy});
      for (const Finding& finding : report.findings) {
        kinds.insert(finding.kind);
        text_ = finding.text();
      }
    }
    return kinds;
  }

  std::vector<std::byte> matrix_;
  TensorMapDesc desc_;
  std::string text_;  // of the last finding
};

using Kinds = std::set<FindingKind>;

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
    const Report report = run(kernel(body, kShared), memory, one_warp(kBytes), {.seed = seed});
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
  EXPECT_EQ(findings_of(early, Policy::kLazy), Kinds{FindingKind::kUninitialized});
  EXPECT_EQ(findings_of(early, Policy::kUniform), Kinds{FindingKind::kUninitialized});
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]") + use), Kinds{});
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
                              memory, one_warp(kBytes), {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    changed += get<std::uint32_t>(memory + kResults, 1).front() == 123456789U ? 1 : 0;
  }
  EXPECT_GT(changed, 5);
  EXPECT_LT(changed, 40);
}

TEST_F(SmallBoxTest, WrongByteCountsAreFound) {
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]", kBytes + 16)),
            Kinds{FindingKind::kDeadlock});
  EXPECT_NE(text_.find("16 bytes awaited"), std::string::npos) << text_;
  // Bytes outside of the tensor count as well.
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, -4}], [%r3]", kBytes / 2), Policy::kEager),
            Kinds{FindingKind::kDeadlock});
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 1000}], [%r3]", 0), Policy::kLazy),
            Kinds{FindingKind::kLifetime});
}

TEST_F(SmallBoxTest, IllegalMapsAreFound) {
  const Kinds illegal{FindingKind::kIllegalTensorMap};
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1+32, {0, 0}], [%r3]")), illegal);
  EXPECT_NE(text_.find("no multiple of 64"), std::string::npos) << text_;
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
            Kinds{FindingKind::kUninitialized});
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [4096, {0, 0}], [%r3]")),
            Kinds{FindingKind::kOutOfBounds});
  desc_.rank = 3;
  desc_.dims[2] = desc_.box[2] = 1;
  EXPECT_EQ(findings_of(load_and_wait("[%r2], [%rd1, {0, 0}], [%r3]")), illegal);
  EXPECT_NE(text_.find("3 dimensions, and the instruction 2"), std::string::npos) << text_;
}

TEST_F(SmallBoxTest, WrongPlacesAreFound) {
  const auto found = [&](std::string_view operands) {
    return findings_of(load_and_wait(operands));
  };
  EXPECT_EQ(found("[%r2+64], [%rd1, {0, 0}], [%r3]"), Kinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2+1536], [%rd1, {0, 0}], [%r3]"), Kinds{});
  EXPECT_EQ(found("[%r2+1664], [%rd1, {0, 0}], [%r3]"), Kinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(found("[%r2+-1152], [%rd1, {0, 0}], [%r3]"), Kinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(found("[%r2+16777216], [%rd1, {0, 0}], [%r3]"), Kinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(found("[%r2], [%rd1, {0, 0}], [%r3+4]"), Kinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2], [%rd1, {0, 0}], [%r3+8]"), Kinds{FindingKind::kBarrierMisuse});
  EXPECT_EQ(found("[%r2], [%rd1, {%r9, 0}], [%r3]"), Kinds{FindingKind::kUninitialized});
  EXPECT_EQ(found("[%r9], [%rd1, {0, 0}], [%r3]"), Kinds{FindingKind::kUninitialized});
  EXPECT_EQ(found("[%r2], [%rd9, {0, 0}], [%r3]"), Kinds{FindingKind::kUninitialized});
  EXPECT_EQ(found("[%r2], [%rd1, {0, 0}], [%r9]"), Kinds{FindingKind::kUninitialized});
  // The box lies over the mbarrier that waits for it.
  EXPECT_EQ(findings_of(std::string(kBegin) +
                        "@%p1 bra WAIT; mbarrier.init.shared::cta.b64 [%r2+128], 1;"
                        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+128], 512;" +
                        std::string(kLoad) + " [%r2], [%rd1, {0, 0}], [%r2+128];" +
                        "WAIT: bar.warp.sync -1;"
                        "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+128], 0; "
                        "@!%p2 bra W;"),
            Kinds{FindingKind::kBarrierMisuse});
  // A tensor that is larger than what is allocated.
  desc_.dims[1] = 48;
  EXPECT_EQ(found("[%r2], [%rd1, {0, 32}], [%r3]"), Kinds{});
  EXPECT_EQ(found("[%r2], [%rd1, {0, 33}], [%r3]"), Kinds{FindingKind::kOutOfBounds});
}

TEST_F(SmallBoxTest, BlocksMayNotEndBeforeTheirLoads) {
  const std::string body = load("[%r2], [%rd1, {0, 0}], [%r3]") + "WAIT:";
  EXPECT_EQ(findings_of(body, Policy::kLazy), Kinds{FindingKind::kLifetime});
  EXPECT_NE(text_.find("cp.async.bulk.tensor.2d"), std::string::npos) << text_;
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
  EXPECT_EQ(found(" [%r12], [%rd1, {0, 0}], [%r3]"), Kinds{FindingKind::kIllegalOperand});
  EXPECT_EQ(found(" [%r2], [%rd1, {0, 0}], [%r13]"), Kinds{FindingKind::kIllegalOperand});
  EXPECT_EQ(found(" [%r12], [%rd1, {0, 0}], [%r13]", "shared::cta"),
            Kinds{FindingKind::kOutOfBounds});
  for (const std::string_view mask : {"4", "7", "0"}) {
    EXPECT_EQ(found(fmt::format(".multicast::cluster [%r2], [%rd1, {{0, 0}}], [%r3], {}", mask)),
              Kinds{FindingKind::kIllegalOperand});
  }
}

// Thread 0 stores the tile, waits, and writes over it; in the end memory has what was there first.
std::string store_and_reuse(std::string_view wait) {
  return fmt::format(R"({}{}
  bar.sync 0;
  @%p1 bra DONE;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {{16, 30}}], [%r2];
  cp.async.bulk.commit_group;
  {}
  mov.u32 %r9, 0;
OVER:
  add.u32 %r12, %r2, %r9;
  st.shared.u32 [%r12], %r9;
  add.u32 %r9, %r9, 4;
  setp.lt.u32 %p4, %r9, 512;
  @%p4 bra OVER;
  cp.async.bulk.wait_group 0;
DONE:)",
                     kBegin, move_tile(512, false), wait);
}

TEST_F(SmallBoxTest, WaitsProtectWhatIsStored) {
  const auto rights = [&](std::string_view wait) {
    int right = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      SetUp();
      std::mt19937_64 random(seed);
      const std::vector<std::byte> tile = random_bytes(random, kBytes);
      const std::uint64_t memory = put_map(encode(desc_), kBytes);
      device_.write(memory + kResults, tile);
      const Report report =
          run(kernel(store_and_reuse(wait), kShared), memory, one_warp(kBytes), {.seed = seed});
      EXPECT_TRUE(report.is_clean()) << report.findings.front().text();
      const TensorCase made{.desc = desc_, .element = 2, .shared = kTile, .coordinates = {16, 30}};
      std::vector<std::byte> expected = matrix_;
      for (const auto& [address, source] : expected_sources(made)) {
        if (source != 0) {
          expected.at(source - desc_.address) = tile.at(address - kTile);
        }
      }
      right += get<std::byte>(desc_.address, expected.size()) == expected ? 1 : 0;
    }
    return right;
  };
  EXPECT_EQ(rights("cp.async.bulk.wait_group.read 0;"), 40);
  EXPECT_EQ(rights("cp.async.bulk.wait_group 0;"), 40);
  EXPECT_LT(rights("cp.async.bulk.wait_group.read 1;"), 30);
  EXPECT_LT(rights(""), 30);
}

// What the thread reads back behind its stores, of which the last is in a group of its own.
TEST_F(SmallBoxTest, OnlyWholeWaitsLetReadBack) {
  const auto seen = [&](std::string_view wait, std::string_view row) {
    int right = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      SetUp();
      const std::uint64_t memory = put_map(encode(desc_), kBytes);
      device_.write(memory + kResults, std::vector<std::byte>(kBytes, std::byte{0x11}));
      const std::string body =
          fmt::format(R"({}{}
  bar.sync 0;
  @%p1 bra DONE;
  {} [%rd1, {{0, 0}}], [%r2];
  cp.async.bulk.commit_group;
  {} [%rd1, {{0, 8}}], [%r2];
  cp.async.bulk.commit_group;
  {}
  mov.u64 %rd7, {};
  ld.global.u32 %r9, [%rd7+{}];
  st.global.u32 [%rd1+256], %r9;
  cp.async.bulk.wait_group 0;
DONE:)",
                      kBegin, move_tile(kBytes, false), kStore, kStore, wait, desc_.address, row);
      const Report report = run(kernel(body, kShared), memory, one_warp(kBytes), {.seed = seed});
      EXPECT_TRUE(report.is_clean()) << report.findings.front().text();
      right += get<std::uint32_t>(memory + kResults, 1).front() == 0x11111111U ? 1 : 0;
    }
    return right;
  };
  EXPECT_EQ(seen("cp.async.bulk.wait_group 0;", "0"), 40);
  EXPECT_EQ(seen("cp.async.bulk.wait_group 0;", "1024"), 40);
  EXPECT_EQ(seen("cp.async.bulk.wait_group 1;", "0"), 40);
  EXPECT_LT(seen("cp.async.bulk.wait_group 1;", "1024"), 38);
  EXPECT_LT(seen("cp.async.bulk.wait_group 2;", "0"), 38);
  EXPECT_LT(seen("cp.async.bulk.wait_group.read 0;", "0"), 38);
}

TEST_F(SmallBoxTest, WrongStoresAreFound) {
  const auto body = [](std::string_view operands, std::string_view wait = "") {
    return fmt::format("{} @%p1 bra DONE; {} {}; cp.async.bulk.commit_group; {} DONE:", kBegin,
                       kStore, operands, wait);
  };
  const std::string_view read = "cp.async.bulk.wait_group.read 0;";
  EXPECT_EQ(findings_of(body("[%rd1, {0, 0}], [%r2]", read)), Kinds{});
  EXPECT_EQ(findings_of(body("[%rd1, {0, 0}], [%r2]"), Policy::kLazy),
            Kinds{FindingKind::kLifetime});
  EXPECT_EQ(findings_of(body("[%rd1, {-1, 0}], [%r2]", read)), Kinds{FindingKind::kIllegalOperand});
  EXPECT_EQ(findings_of(body("[%rd1, {0, -1}], [%r2]", read)), Kinds{FindingKind::kIllegalOperand});
  EXPECT_EQ(findings_of(body("[%rd1, {0, 0}], [%r2+64]", read)), Kinds{FindingKind::kMisaligned});
  EXPECT_EQ(findings_of(body("[%rd1, {0, 0}], [%r2+1664]", read)),
            Kinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(
      findings_of("mapa.shared::cluster.u32 %r9, tile, 1;" + body("[%rd1, {0, 0}], [%r9]", read),
                  Policy::kUniform, 2),
      Kinds{FindingKind::kOutOfBounds});
  desc_.dims[1] = 41;
  EXPECT_EQ(findings_of(body("[%rd1, {0, 34}], [%r2]", read)), Kinds{FindingKind::kOutOfBounds});
}

// A grid has ended when what its copies write is there.
TEST_F(SmallBoxTest, TheNextGridSeesWhatWasStored) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SetUp();
    const std::uint64_t memory = put_map(encode(desc_), 2 * kBytes);
    device_.write(memory + kResults, std::vector<std::byte>(kBytes, std::byte{0x11}));
    const std::string store = fmt::format(
        "{}{} bar.sync 0; @%p1 bra DONE; {} [%rd1, {{0, 0}}], [%r2]; cp.async.bulk.commit_group; "
        "cp.async.bulk.wait_group.read 0; DONE:",
        kBegin, move_tile(kBytes, false), kStore);
    const std::string load = fmt::format(
        "griddepcontrol.wait; mov.u64 %rd7, {}; ld.global.u32 %r9, [%rd7+512]; "
        "st.global.u32 [%rd3+256], %r9;",
        desc_.address);
    const auto parameter = std::bit_cast<std::array<std::byte, 8>>(memory);
    const std::vector<std::byte> parameters(parameter.begin(), parameter.end());
    std::vector<Launch> launches;
    for (const std::string& body : {store, load}) {
      launches.push_back({.kernel = device_.load(kernel(body, kShared)).front(),
                          .config = one_warp(kBytes),
                          .parameters = parameters});
    }
    launches[1].config.is_dependent = seed % 2 == 1;
    const Report report = device_.run(launches, {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    EXPECT_EQ(get<std::uint32_t>(memory + kResults, 1).front(), 0x11111111U) << "seed " << seed;
  }
}

TEST_F(SmallBoxTest, PlainBytesAreCopiedToo) {
  const std::string there =
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+16], [%rd7+48], "
      "%r9, [%r3]";
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SetUp();
    const std::uint32_t size = 16 + static_cast<std::uint32_t>(seed * 48);
    const std::uint64_t memory = put_map(encode(desc_), 4096);
    const std::string begin =
        fmt::format("mov.u64 %rd7, {}; mov.u32 %r9, {};", desc_.address, size);
    const std::string back =
        "@%p1 bra DONE; cp.async.bulk.global.shared::cta.bulk_group [%rd1+256], [%r2+16], %r9; "
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:";
    const Report report =
        run(kernel(begin + std::string(kBegin) + load_text(size, there) + std::string(kWait) + back,
                   kShared),
            memory, one_warp(4096), {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    std::vector<std::byte> expected(4096, kNotWritten);
    std::copy_n(matrix_.begin() + 48, size, expected.begin());
    EXPECT_EQ(get<std::byte>(memory + kResults, 4096), expected);
  }
  const auto found = [&](std::string_view operands) {
    return findings_of(fmt::format("mov.u64 %rd7, {};", desc_.address) + std::string(kBegin) +
                       load_text(64, fmt::format("cp.async.bulk.shared::cluster.global.mbarrier::"
                                                 "complete_tx::bytes {}",
                                                 operands)) +
                       std::string(kWait));
  };
  EXPECT_EQ(found("[%r2], [%rd7], 64, [%r3]"), Kinds{});
  EXPECT_EQ(found("[%r2+8], [%rd7], 64, [%r3]"), Kinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2], [%rd7+8], 64, [%r3]"), Kinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2], [%rd7], 72, [%r3]"), Kinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2], [%rd7+5072], 64, [%r3]"), Kinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(found("[%r2+2000], [%rd7], 64, [%r3]"), Kinds{FindingKind::kOutOfBounds});
}

TEST_F(SmallBoxTest, RefusesWhatItDoesNotKnow) {
  const auto message = [&](const std::string& text) {
    try {
      device_.load(kernel(text, kShared));
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.substr(what.rfind(": ") + 2);
    }
    return std::string();
  };
  const std::string load = "cp.async.bulk.tensor.2d.shared::cluster.global";
  const std::string bytes = ".mbarrier::complete_tx::bytes";
  const std::string operands = " [%r2], [%rd1, {0, 0}], [%r3];";
  EXPECT_EQ(message(load + ".tile" + bytes + operands), "");
  EXPECT_EQ(message(load + ".im2col" + bytes + operands),
            "the emulator does not know .im2col here");
  EXPECT_EQ(message(load + ".tile::gather4" + bytes + operands),
            "the emulator does not know .tile::gather4 here");
  EXPECT_EQ(message(load + bytes + ".cta_group::2" + operands),
            "the emulator does not know .cta_group::2 here");
  EXPECT_EQ(message(load + bytes + " [%r2], [%rd1, {0, 0, 0}], [%r3];"),
            "expected [a tensor map, {2 coordinates}]");
  EXPECT_EQ(message(load + bytes + " [%r2], [%rd1], [%r3];"),
            "expected [a tensor map, {2 coordinates}]");
  EXPECT_EQ(message(load + bytes + " [%r2], [%rd1, {0, 0}], [%r3], 3;"), "4 operands");
  EXPECT_EQ(message(load + ".bulk_group" + operands),
            "the emulator knows it with .shared::cta alone");
  EXPECT_EQ(message("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
                    "[%rd1, {0, 0}], [%r2];"),
            "the emulator does not know .reduce here");
  EXPECT_EQ(
      message("cp.async.bulk.shared::cluster.shared::cta" + bytes + " [%r2], [%r3], 16, [%r4];"),
      "the emulator knows it with .global alone");
  EXPECT_EQ(message("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {0, 0}];"),
            "the emulator knows it with .bulk_group alone");
  EXPECT_EQ(message("cp.async.bulk.wait_group -1;"), "groups are counted from 0");
}

}  // namespace
}  // namespace emu
