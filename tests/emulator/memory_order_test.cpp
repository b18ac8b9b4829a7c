// Order that threads make by memory: fences, strong loads and stores, and atomic operations, within
// a block and between blocks.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"

namespace emu {
namespace {

using Kinds = std::set<FindingKind>;
const Kinds kNoKinds{};
const Kinds kOnlyRaces{FindingKind::kRace};

// How a block tells another one of what its threads have written.
struct Telling {
  std::string_view before_barrier = "";  // of all threads, behind their writes
  std::string_view after_barrier = "";   // of thread 0, before it writes the flag
  std::string_view store = "st.volatile.global.u32 [%rd1+256], 1;";
  std::string_view load = "ld.volatile.global.u32 %r3, [%rd1+256];";
  std::string_view after_load = "membar.gl;";  // of all threads that have seen the flag
};

class MemoryOrderTest : public DeviceTest {
 protected:
  // Block 0 writes 32 words and tells block 1, which copies them.
  static std::string flag_kernel(const Telling& telling) {
    return kernel(fmt::format(R"(
  mov.u32 %r2, %ctaid.x;
  setp.ne.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r1, 0;
  @%p1 bra READER;
  st.global.u32 [%rd3], 7;
  {}
  bar.sync 0;
  {}
  @%p2 {}
  bra END;
READER:
  {}
  setp.eq.u32 %p3, %r3, 0;
  @%p3 bra READER;
  {}
  ld.global.u32 %r4, [%rd3];
  st.global.u32 [%rd3+512], %r4;
END:
)",
                              telling.before_barrier, telling.after_barrier, telling.store,
                              telling.load, telling.after_load));
  }

  Kinds kinds(const std::string& ptx, std::uint32_t blocks = 2, std::uint32_t threads = 32,
              std::uint32_t cluster = 1) {
    return kinds_over(20, [&](std::uint64_t seed) {
      const std::uint64_t memory = put(std::vector<std::uint32_t>(256, 0));
      const Report report =
          run(ptx, memory,
              LaunchConfig{
                  .grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .cluster = {cluster, 1, 1}},
              {.seed = seed, .max_steps = 1'000'000});
      if (report.is_clean()) {
        result_ = get<std::uint32_t>(memory, 256);
      }
      return report;
    });
  }

  std::vector<std::uint32_t> result_;
};

TEST_F(MemoryOrderTest, FlagsBetweenBlocks) {
  const std::vector<Telling> right = {
      {.after_barrier = "membar.gl;"},
      {.before_barrier = "membar.gl;"},
      {.after_barrier = "fence.acq_rel.gpu;",
       .store = "st.relaxed.gpu.global.u32 [%rd1+256], 1;",
       .load = "ld.relaxed.gpu.global.u32 %r3, [%rd1+256];",
       .after_load = "fence.acq_rel.gpu;"},
      {.after_barrier = "fence.release.gpu;", .after_load = "fence.acquire.sys;"},
      {.store = "st.release.gpu.global.u32 [%rd1+256], 1;",
       .load = "ld.acquire.gpu.global.u32 %r3, [%rd1+256];",
       .after_load = ""},
      {.after_barrier = "fence.sc.sys;", .store = "atom.global.exch.b32 %r5, [%rd1+256], 1;"},
      {.store = "red.release.gpu.global.add.u32 [%rd1+256], 1;",
       .load = "atom.acquire.gpu.global.or.b32 %r3, [%rd1+256], 0;",
       .after_load = ""},
      // A barrier of the block stands for the fence behind an atomic operation.
      {.after_barrier = "membar.gl;",
       .load = "atom.global.add.u32 %r3, [%rd1+256], 0;",
       .after_load = "bar.sync 0;"},
  };
  for (const Telling& telling : right) {
    EXPECT_EQ(kinds(flag_kernel(telling)), kNoKinds) << telling.store << last_.text();
    EXPECT_EQ(result_.at(128 + 31), 7U);
  }
  const std::vector<Telling> wrong = {
      {},
      {.after_barrier = "membar.cta;"},
      {.after_barrier = "fence.acquire.gpu;"},
      {.after_barrier = "membar.gl;", .after_load = ""},
      {.after_barrier = "membar.gl;", .after_load = "membar.cta;"},
      {.after_barrier = "membar.gl;", .after_load = "fence.release.gpu;"},
      {.after_barrier = "membar.gl;", .after_load = "bar.sync 0;"},
      {.store = "st.release.cta.global.u32 [%rd1+256], 1;"},
      {.store = "st.release.cluster.global.u32 [%rd1+256], 1;"},
      {.store = "st.release.gpu.global.u32 [%rd1+256], 1;",
       .load = "ld.acquire.cta.global.u32 %r3, [%rd1+256];",
       .after_load = ""},
      {.after_barrier = "membar.gl;", .store = "st.global.u32 [%rd1+256], 1;"},
      {.after_barrier = "membar.gl;", .load = "ld.global.u32 %r3, [%rd1+256];"},
      {.after_barrier = "membar.gl;", .store = "st.relaxed.cta.global.u32 [%rd1+256], 1;"},
  };
  for (const Telling& telling : wrong) {
    EXPECT_EQ(kinds(flag_kernel(telling)), kOnlyRaces)
        << telling.after_barrier << telling.store << telling.load << telling.after_load;
    EXPECT_EQ(clean_, 0U);
  }
}

TEST_F(MemoryOrderTest, ScopesOfAClusterAreEnoughWithinIt) {
  const Telling telling{.store = "st.release.cluster.global.u32 [%rd1+256], 1;",
                        .load = "ld.acquire.cluster.global.u32 %r3, [%rd1+256];",
                        .after_load = ""};
  EXPECT_EQ(kinds(flag_kernel(telling), 2, 32, 2), kNoKinds) << last_.text();
  const Telling of_block{.store = "st.release.cta.global.u32 [%rd1+256], 1;",
                         .load = "ld.acquire.cta.global.u32 %r3, [%rd1+256];",
                         .after_load = ""};
  EXPECT_EQ(kinds(flag_kernel(of_block), 2, 32, 2), kOnlyRaces);
}

TEST_F(MemoryOrderTest, AStoreBehindTheFenceIsNotReleased) {
  const std::string late = flag_kernel({.after_barrier = "membar.gl; st.global.u32 [%rd3], 8;"});
  EXPECT_EQ(kinds(late), kOnlyRaces);
}

TEST_F(MemoryOrderTest, OrderIsPassedOnByAThirdBlock) {
  const auto relay = [](std::string_view fence) {
    return kernel(fmt::format(R"(
  mov.u32 %r2, %ctaid.x;
  setp.eq.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r2, 1;
  @%p1 st.global.u32 [%rd3], 9;
  @%p1 st.release.gpu.global.u32 [%rd3+256], 1;
  @%p1 bra END;
  @!%p2 bra LAST;
WAIT:
  ld.acquire.gpu.global.u32 %r3, [%rd3+256];
  setp.eq.u32 %p3, %r3, 0;
  @%p3 bra WAIT;
  {}
  st.relaxed.gpu.global.u32 [%rd3+384], 1;
  bra END;
LAST:
  ld.acquire.gpu.global.u32 %r3, [%rd3+384];
  setp.eq.u32 %p3, %r3, 0;
  @%p3 bra LAST;
  ld.global.u32 %r4, [%rd3];
  st.global.u32 [%rd3+512], %r4;
END:
)",
                              fence));
  };
  EXPECT_EQ(kinds(relay("fence.acq_rel.gpu;"), 3), kNoKinds) << last_.text();
  EXPECT_EQ(result_.at(128), 9U);
  EXPECT_EQ(kinds(relay(""), 3), kOnlyRaces);
}

// The last block to finish sums what all have written, as in threadFenceReduction of the samples.
TEST_F(MemoryOrderTest, TheLastBlockSums) {
  const auto last_block = [](std::string_view fence, std::string_view load) {
    return kernel(fmt::format(R"(
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  mul.wide.u32 %rd5, %r2, 4;
  add.s64 %rd6, %rd1, %rd5;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra MEET;
  add.u32 %r4, %r2, 1;
  st.global.u32 [%rd6], %r4;
  {}
  sub.u32 %r5, %r3, 1;
  atom.global.inc.u32 %r6, [%rd1+256], %r5;
  setp.eq.u32 %p2, %r6, %r5;
  selp.u32 %r7, 1, 0, %p2;
  st.shared.u32 [last], %r7;
MEET:
  bar.sync 0;
  ld.shared.u32 %r7, [last];
  setp.eq.u32 %p2, %r7, 0;
  @%p2 bra END;
  {} %r8, [%rd1];
  {} %r9, [%rd1+8];
  add.u32 %r8, %r8, %r9;
  @!%p1 st.global.u32 [%rd1+512], %r8;
END:
)",
                              fence, load, load),
                  ".shared .align 4 .u32 last;");
  };
  for (const std::string_view load : {"ld.global.u32", "ld.volatile.global.u32"}) {
    EXPECT_EQ(kinds(last_block("membar.gl;", load), 4, 64), kNoKinds) << last_.text();
    EXPECT_EQ(result_.at(128), 4U);
    EXPECT_EQ(kinds(last_block("", load), 4, 64), kOnlyRaces);
    EXPECT_EQ(kinds(last_block("membar.cta;", load), 4, 64), kOnlyRaces);
  }
}

TEST_F(MemoryOrderTest, ALockOrdersWhatItGuards) {
  const auto locked = [](std::string_view acquire, std::string_view release) {
    return kernel(fmt::format(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra END;
TRY:
  atom.global.cas.b32 %r2, [%rd1+256], 0, 1;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra TRY;
  {}
  ld.global.u32 %r3, [%rd1];
  add.u32 %r3, %r3, 1;
  st.global.u32 [%rd1], %r3;
  {}
END:
)",
                              acquire, release));
  };
  EXPECT_EQ(kinds(locked("membar.gl;", "membar.gl; atom.global.exch.b32 %r4, [%rd1+256], 0;"), 6),
            kNoKinds)
      << last_.text();
  EXPECT_EQ(result_.at(0), 6U);
  EXPECT_EQ(kinds(locked("membar.gl;", "membar.gl; st.volatile.global.u32 [%rd1+256], 0;"), 6),
            kNoKinds);
  EXPECT_EQ(kinds(locked("", "membar.gl; atom.global.exch.b32 %r4, [%rd1+256], 0;"), 6),
            kOnlyRaces);
  EXPECT_EQ(kinds(locked("membar.gl;", "atom.global.exch.b32 %r4, [%rd1+256], 0;"), 6), kOnlyRaces);
  EXPECT_EQ(kinds(locked("membar.gl;", "membar.gl; st.global.u32 [%rd1+256], 0;"), 6), kOnlyRaces);
}

TEST_F(MemoryOrderTest, StrongAccessesDoNotRace) {
  const auto both = [](std::string_view access) {
    return kernel(fmt::format("mov.u32 %r2, 5; {}", access));
  };
  for (const std::string_view clean :
       {"atom.global.add.u32 %r3, [%rd1], 1;", "red.global.max.u32 [%rd1], 1;",
        "st.volatile.global.u32 [%rd1], %r2;", "st.relaxed.sys.global.u32 [%rd1], %r2;",
        "ld.volatile.global.u32 %r3, [%rd1]; atom.global.add.u32 %r3, [%rd1], 1;",
        "ld.relaxed.gpu.global.u32 %r3, [%rd1]; st.mmio.relaxed.sys.global.u32 [%rd1], %r2;"}) {
    EXPECT_EQ(kinds(both(clean)), kNoKinds) << clean << last_.text();
  }
  for (const std::string_view race :
       {"atom.cta.global.add.u32 %r3, [%rd1], 1;", "red.relaxed.cluster.global.max.u32 [%rd1], 1;",
        "st.relaxed.cta.global.u32 [%rd1], %r2;", "st.weak.global.u32 [%rd1], %r2;",
        "ld.global.u32 %r3, [%rd1]; atom.global.add.u32 %r3, [%rd1], 1;",
        "atom.global.add.u32 %r3, [%rd1], 1; ld.global.u32 %r3, [%rd1];",
        "st.global.wt.u32 [%rd1], %r2;", "st.global.cg.u32 [%rd1], %r2;"}) {
    EXPECT_EQ(kinds(both(race)), kOnlyRaces) << race;
  }
  // Threads of a block are within the scope of each.
  EXPECT_EQ(kinds(both("atom.cta.global.add.u32 %r3, [%rd1], 1;"), 1, 128), kNoKinds);
}

TEST_F(MemoryOrderTest, FlagsInSharedMemory) {
  const auto flags = [](std::string_view store, std::string_view load) {
    return kernel(fmt::format(R"(
  setp.eq.u32 %p1, %r1, 0;
  setp.ge.u32 %p2, %r1, 32;
  @%p1 st.shared.u32 [flag], 0;
  bar.sync 0;
  @%p2 bra READER;
  @%p1 st.shared.u32 [data], 3;
  @%p1 {}
  bra END;
READER:
  {} %r3, [flag];
  setp.eq.u32 %p3, %r3, 0;
  @%p3 bra READER;
  ld.shared.u32 %r4, [data];
  st.global.u32 [%rd3], %r4;
END:
)",
                              store, load),
                  ".shared .align 4 .u32 flag; .shared .align 4 .u32 data;");
  };
  EXPECT_EQ(
      kinds(flags("st.release.cta.shared.u32 [flag], 1;", "ld.acquire.cta.shared.u32"), 1, 64),
      kNoKinds)
      << last_.text();
  EXPECT_EQ(result_.at(32), 3U);
  EXPECT_EQ(kinds(flags("st.volatile.shared.u32 [flag], 1;", "ld.acquire.cta.shared.u32"), 1, 64),
            kOnlyRaces);
}

// Lanes of a warp, which have an order of their own in shared memory.
TEST_F(MemoryOrderTest, LanesOfAWarp) {
  constexpr std::string_view kVariables = ".shared .align 4 .b8 cells[128];";
  const auto lanes = [&](std::string_view store, std::string_view load) {
    return kernel(fmt::format("shl.b32 %r2, %r1, 2; mov.u32 %r3, cells; add.u32 %r4, %r3, %r2;"
                              "xor.b32 %r5, %r2, 4; add.u32 %r5, %r3, %r5;"
                              "{}.u32 [%r4], %r1; {}.u32 %r6, [%r5]; st.global.u32 [%rd3], %r6;",
                              store, load),
                  kVariables);
  };
  EXPECT_EQ(kinds(lanes("st.volatile.shared", "ld.volatile.shared"), 1), kNoKinds);
  EXPECT_EQ(kinds(lanes("st.volatile.shared", "ld.shared"), 1), kOnlyRaces);
  EXPECT_EQ(kinds(lanes("st.shared", "ld.volatile.shared"), 1), kOnlyRaces);
}

TEST_F(MemoryOrderTest, UnknownModifiersAreRefused) {
  for (const std::string_view line : {"ld.relaxed.global.u32 %r2, [%rd1];",
                                      "ld.release.gpu.global.u32 %r2, [%rd1];",
                                      "st.acquire.gpu.global.u32 [%rd1], 1;",
                                      "st.global.lu.u32 [%rd1], 1;",
                                      "ld.volatile.acquire.gpu.global.u32 %r2, [%rd1];",
                                      "ld.mmio.global.u32 %r2, [%rd1];",
                                      "membar.gpu;",
                                      "fence.acq_rel.gl;",
                                      "fence.acq_rel;",
                                      "fence.relaxed.gpu;",
                                      "atom.sc.global.add.u32 %r2, [%rd1], 1;",
                                      "atom.global.add.s64 %rd4, [%rd1], 1;",
                                      "atom.global.add.b32 %r2, [%rd1], 1;",
                                      "atom.global.and.u32 %r2, [%rd1], 1;",
                                      "atom.global.inc.s32 %r2, [%rd1], 1;",
                                      "red.global.exch.b32 [%rd1], 1;",
                                      "red.acquire.gpu.global.add.u32 [%rd1], 1;",
                                      "atom.global.min.f32 %f1, [%rd1], %f2;",
                                      "atom.global.add.f16x2 %r2, [%rd1], %r3;",
                                      "atom.shared.add.v2.f32 {%f1, %f2}, [%r1], {%f3, %f4};",
                                      "atom.global.add.v2.u32 {%r2, %r3}, [%rd1], {%r4, %r5};"}) {
    EXPECT_THROW(static_cast<void>(device_.load(kernel(line))), std::exception) << line;
  }
}

}  // namespace
}  // namespace emu
