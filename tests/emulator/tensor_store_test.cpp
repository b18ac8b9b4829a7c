// Boxes of tensors that kernels store, and plain bytes: what is in memory then, what the waits for
// groups of them promise, and what is found wrong.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea_emulator/error.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "tensor_fixture.hpp"

namespace emu {
namespace {

TEST_F(TensorCopyTest, StoresBoxesOfAllKinds) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    TensorCase made = random_case(random, true);
    for (std::int32_t& coordinate : made.coordinates) {
      coordinate = std::max(coordinate, 0);
    }
    // Units of 16 bytes are stored as a whole, beyond the end of a row too.
    TensorCase written = made;
    const std::uint64_t unit = 16 / made.element;
    written.desc.dims[0] = (made.desc.dims[0] + unit - 1) / unit * unit;
    std::vector<std::byte> tensor = put_tensor(written, random);
    made.desc.address = written.desc.address;
    const TensorSources sources = expected_sources(written);
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
            one_warp(bytes), {.seed = seed, .check_swizzle_starts = false});
    ASSERT_TRUE(report.is_clean()) << "seed " << seed << ": " << report.findings.front().text();
    for (const auto& [address, source] : sources) {
      if (source != 0) {
        tensor.at(source - made.desc.address) = tile.at(address - kTile);
      }
    }
    ASSERT_EQ(get<std::byte>(made.desc.address, tensor.size()), tensor) << "seed " << seed;
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
          run(kernel(store_and_reuse(wait), kShared), memory, one_warp(kBytes), values_of(seed));
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
      const Report report = run(kernel(body, kShared), memory, one_warp(kBytes), values_of(seed));
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

// A thread's groups are its own: others wait for none of them.
TEST_F(SmallBoxTest, GroupsAreOfOneThread) {
  const std::uint64_t memory = put_map(encode(desc_), kBytes);
  const std::string body = fmt::format(
      "{}{} bar.sync 0; mov.u64 %rd7, {}; @!%p1 {} [%rd1, {{0, 0}}], [%r2];"
      "@!%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"
      "ld.global.u32 %r9, [%rd7]; st.global.u32 [%rd3+256], %r9; cp.async.bulk.wait_group 0;",
      kBegin, move_tile(kBytes, false), desc_.address, kStore);
  device_.write(memory + kResults, std::vector<std::byte>(kBytes, std::byte{0x11}));
  const Report report =
      run(kernel(body, kShared), memory, one_warp(kBytes), values_of(0, Policy::kLazy));
  ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
  EXPECT_EQ(get<std::uint32_t>(memory + kResults, 2)[1], 0xCBCBCBCBU);
}

// From its start on until it is waited for, a store's destination is lost; then it holds values
// where shared memory did.
TEST_F(SmallBoxTest, StoresKeepWhatIsNoValue) {
  const auto body = [&](std::string_view before, std::string_view store, std::string_view wait,
                        std::string_view use) {
    return fmt::format(
        "{} mov.u64 %rd7, {}; @%p1 bra DONE; {} fence.proxy.async.shared::cta; {};"
        "cp.async.bulk.commit_group; {} ld.global.u32 %r9, [%rd7]; {} "
        "cp.async.bulk.wait_group 0; DONE:",
        kBegin, desc_.address, before, store, wait, use);
  };
  const std::string box = std::string(kStore) + " [%rd1, {0, 0}], [%r2]";
  const std::string_view all = "cp.async.bulk.wait_group 0;";
  const std::string_view branch = "setp.eq.u32 %p3, %r9, 0; @%p3 bra THERE; THERE:";
  EXPECT_EQ(findings_of(body("st.shared.u32 [%r2], 7;", box, all, branch)), FindingKinds{});
  EXPECT_EQ(findings_of(body("", box, all, branch)), FindingKinds{FindingKind::kUninitialized});
  SetUp();  // what is there is values again
  EXPECT_EQ(findings_of(body("st.shared.u32 [%r2], 7;", box, "", branch), Policy::kLazy),
            FindingKinds{FindingKind::kUninitialized});
  // An mbarrier is no value.
  EXPECT_EQ(findings_of(body("", "cp.async.bulk.global.shared::cta.bulk_group [%rd7], [%r3], 16",
                             all, branch)),
            FindingKinds{FindingKind::kUninitialized});
  SetUp();
  const std::uint64_t memory = put_map(encode(desc_), kBytes);
  const Report report = run(
      kernel(body("st.shared.u32 [%r2], 7;", box, "", "st.global.u32 [%rd1+256], %r9;"), kShared),
      memory, one_warp(kBytes), values_of(0, Policy::kLazy));
  ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
  EXPECT_EQ(get<std::uint32_t>(memory + kResults, 1).front(), 0xCBCBCBCBU);
}

TEST_F(SmallBoxTest, WrongStoresAreFound) {
  const auto body = [](std::string_view operands, std::string_view wait = "") {
    return fmt::format("{} @%p1 bra DONE; {} {}; cp.async.bulk.commit_group; {} DONE:", kBegin,
                       kStore, operands, wait);
  };
  const std::string_view read = "cp.async.bulk.wait_group.read 0;";
  EXPECT_EQ(findings_of(body("[%rd1, {0, 0}], [%r2]", read)), FindingKinds{});
  EXPECT_EQ(findings_of(body("[%rd1, {0, 0}], [%r2]"), Policy::kLazy),
            FindingKinds{FindingKind::kLifetime});
  EXPECT_EQ(findings_of(body("[%rd1, {-1, 0}], [%r2]", read)),
            FindingKinds{FindingKind::kIllegalOperand});
  EXPECT_EQ(findings_of(body("[%rd1, {0, -1}], [%r2]", read)),
            FindingKinds{FindingKind::kIllegalOperand});
  EXPECT_EQ(findings_of(body("[%rd1, {-16, 0}], [%r2]", read)),
            FindingKinds{FindingKind::kIllegalOperand});
  EXPECT_EQ(findings_of(body("[%rd1, {4, 0}], [%r2]", read)),
            FindingKinds{FindingKind::kIllegalOperand});
  EXPECT_NE(last_.text().find("coordinate 0 is 4: 8 bytes, not a multiple of 16"),
            std::string::npos);
  EXPECT_EQ(findings_of(body("[%rd1, {8, 0}], [%r2]", read)), FindingKinds{});
  EXPECT_EQ(findings_of(body("[%rd1, {0, 0}], [%r2+64]", read)),
            FindingKinds{FindingKind::kMisaligned});
  EXPECT_EQ(findings_of(body("[%rd1, {0, 0}], [%r2+1664]", read)),
            FindingKinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(
      findings_of("mapa.shared::cluster.u32 %r9, tile, 1;" + body("[%rd1, {0, 0}], [%r9]", read),
                  Policy::kUniform, 2),
      FindingKinds{FindingKind::kOutOfBounds});
  desc_.dims[1] = 41;
  EXPECT_EQ(findings_of(body("[%rd1, {0, 34}], [%r2]", read)),
            FindingKinds{FindingKind::kOutOfBounds});
}

// All lanes of a warp may issue one store, which is made once; stores to other places that overlap
// are several.
TEST_F(SmallBoxTest, TheSameStoreOfAllLanesIsOne) {
  std::mt19937_64 random(3);
  const std::vector<std::byte> tile = random_bytes(random, kBytes);
  const auto findings = [&](std::string_view row) {
    const std::string body = fmt::format(
        "{} {} fence.proxy.async.shared::cta; bar.warp.sync -1; {} {} [%rd1, {{0, %r9}}], [%r2];"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        kBegin, move_tile(kBytes, false), row, kStore);
    return kinds_over(10, [&](std::uint64_t seed) {
      const std::uint64_t memory = put_map(encode(desc_), kBytes);
      device_.write(memory + kResults, tile);
      return run(kernel(body, kShared), memory, one_warp(kBytes), {.seed = seed});
    });
  };
  EXPECT_EQ(findings("mov.u32 %r9, 2;"), FindingKinds{}) << last_.text();
  EXPECT_TRUE(
      std::ranges::equal(get<std::byte>(desc_.address + 2 * 128, 64), std::span(tile).first(64)));
  EXPECT_EQ(findings("and.b32 %r9, %r1, 1;"), FindingKinds{FindingKind::kRace}) << last_.text();
  // Two stores, each of half of the lanes, to places that do not overlap.
  EXPECT_EQ(findings("shr.u32 %r9, %r1, 4; shl.b32 %r9, %r9, 3;"), FindingKinds{}) << last_.text();
}

// A lane stores what others of its warp have written, and tells them when it has been read: both by
// a barrier of the warp.
TEST_F(SmallBoxTest, LanesMeetBeforeAndAfterOneStores) {
  constexpr std::string_view kSync = "bar.warp.sync -1;";
  const auto findings = [this](std::string_view before, std::string_view after) {
    const std::string body = fmt::format(R"({}
  shl.b32 %r9, %r1, 2;
  add.u32 %r9, %r9, %r2;
  st.shared.u32 [%r9], %r1;
  fence.proxy.async.shared::cta;
  {}
  @%p1 bra STORED;
  {} [%rd1, {{0, 0}}], [%r2];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
STORED:
  {}
  st.shared.u32 [%r9], %r2;)",
                                         kBegin, before, kStore, after);
    return kinds_over(10, [&](std::uint64_t seed) {
      return run(kernel(body, kShared), put_map(encode(desc_), kBytes), one_warp(kBytes),
                 {.seed = seed, .check_swizzle_starts = false});
    });
  };
  EXPECT_EQ(findings(kSync, kSync), FindingKinds{});
  EXPECT_EQ(findings("", kSync), FindingKinds{FindingKind::kRace});
  EXPECT_NE(last_.text().find("without a __syncwarp() (bar.warp.sync)"), std::string::npos)
      << last_.text();
  EXPECT_EQ(findings(kSync, ""), FindingKinds{FindingKind::kRace});
  EXPECT_NE(last_.text().find("without a __syncwarp() (bar.warp.sync)"), std::string::npos)
      << last_.text();
}

// A grid has ended when what its copies write is there.
TEST_F(SmallBoxTest, TheNextGridSeesWhatWasStored) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SetUp();
    const std::uint64_t memory = put_map(encode(desc_), 2 * kBytes);
    device_.write(memory + kResults, std::vector<std::byte>(kBytes, std::byte{0x11}));
    const std::string store = fmt::format(
        "{}{} fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra DONE; "
        "{} [%rd1, {{0, 0}}], [%r2]; cp.async.bulk.commit_group; "
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
  EXPECT_EQ(found("[%r2], [%rd7], 64, [%r3]"), FindingKinds{});
  EXPECT_EQ(found("[%r2+8], [%rd7], 64, [%r3]"), FindingKinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2], [%rd7+8], 64, [%r3]"), FindingKinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2], [%rd7], 72, [%r3]"), FindingKinds{FindingKind::kMisaligned});
  EXPECT_EQ(found("[%r2], [%rd7+5072], 64, [%r3]"), FindingKinds{FindingKind::kOutOfBounds});
  EXPECT_EQ(found("[%r2+2000], [%rd7], 64, [%r3]"), FindingKinds{FindingKind::kOutOfBounds});
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
  EXPECT_EQ(message(load + ".im2col" + bytes + operands), "unsupported modifier .im2col");
  EXPECT_EQ(message(load + ".tile::gather4" + bytes + operands),
            "unsupported modifier .tile::gather4");
  EXPECT_EQ(message(load + bytes + ".cta_group::2" + operands), "");
  EXPECT_EQ(message("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.cta_group::2 "
                    "[%rd1, {0, 0}], [%r2];"),
            "unsupported modifier .cta_group::2");
  EXPECT_EQ(message(load + bytes + " [%r2], [%rd1, {0, 0, 0}], [%r3];"),
            "expected [a tensor map, {2 coordinates}]");
  EXPECT_EQ(message(load + bytes + " [%r2], [%rd1], [%r3];"),
            "expected [a tensor map, {2 coordinates}]");
  EXPECT_EQ(message(load + bytes + " [%r2], [%rd1, {0, 0}], [%r3], 3;"),
            "expected 3 operands, got 4");
  EXPECT_EQ(message(load + ".bulk_group" + operands), "expected .shared::cta");
  EXPECT_EQ(message("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
                    "[%rd1, {0, 0}], [%r2];"),
            "reductions of tensors are not supported");
  EXPECT_EQ(message("cp.async.bulk.wait_group -1;"), "expected a non-negative number of groups");
}

}  // namespace
}  // namespace emu
