// What is found wrong with kernels that use tcgen05, beside those without the mistake.
#include <functional>
#include <utility>

#include "fovea_emulator/error.hpp"
#include "tests/emulator/tcgen05_fixture.hpp"

namespace emu::tcgen05 {
namespace {

using Kinds = std::set<FindingKind>;

std::string arrive_and_wait(std::string_view before, std::string_view after) {
  // All threads tell the first one, which multiplies again.
  return fmt::format(R"(
{}
  mov.u32 %r21, other;
  mbarrier.arrive.shared::cta.b64 _, [%r21];
  @!%p1 bra AGAIN;
{}
{}
)",
                     before, wait_at("%r21", "FREED"), after);
}

class Tcgen05FindingsTest : public KernelTest {
 protected:
  static Kernel good(std::size_t blocks) {
    Kernel kernel(blocks, 64);
    kernel.products = products(kE4M3, blocks, 128 * blocks, 64);
    return kernel;
  }
  // What a change to a kernel without mistakes is found to be.
  Kinds with(std::size_t blocks, const std::function<void(Kernel&)>& change) {
    Kernel kernel = good(blocks);
    change(kernel);
    put(kE4M3, blocks);
    const Kinds kinds = kinds_of(kernel);
    device_.free(address_);
    return kinds;
  }
  // One kind of finding, on every schedule.
  void expect_always(FindingKind kind, std::size_t blocks,
                     const std::function<void(Kernel&)>& change) {
    EXPECT_EQ(with(blocks, change), Kinds{kind}) << last_.text();
    EXPECT_EQ(clean_, 0U);
  }
  void expect_clean(std::size_t blocks, const std::function<void(Kernel&)>& change) {
    EXPECT_EQ(with(blocks, change), Kinds{}) << last_.text();
  }

  // The accumulator is multiplied into again once all have loaded it.
  static Kernel twice(std::string_view before, std::string_view after) {
    Kernel kernel = good(1);
    kernel.fence_before = "";
    kernel.more = arrive_and_wait(before, after) + products(kE4M3, 1, 128, 64) +
                  "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd30];\n" + "AGAIN:\n" +
                  wait_at("%r5", "DONE2", 1);
    kernel.wait += "cvta.shared.u64 %rd30, %rd31;\n";
    kernel.after_allocation += "cvt.u64.u32 %rd31, %r5;\n";
    return kernel;
  }
  Kinds of(const Kernel& kernel) {
    put(kE4M3, kernel.blocks);
    const Kinds kinds = kinds_of(kernel);
    device_.free(address_);
    return kinds;
  }
};

TEST_F(Tcgen05FindingsTest, FindsNothingWrongWithWhatIsRight) {
  for (const std::size_t blocks : {std::size_t{1}, std::size_t{2}}) {
    expect_clean(blocks, [](Kernel& /*kernel*/) {});
    expect_clean(blocks, [](Kernel& kernel) {  // relaxed operations and a fence are enough
      kernel.wait = wait_at("%r5", "DONE");
      kernel.wait.replace(kernel.wait.find("parity."), 7, "parity.relaxed.cluster.");
    });
  }
}

TEST_F(Tcgen05FindingsTest, FindsLoadsBeforeProducts) {
  for (const std::size_t blocks : {std::size_t{1}, std::size_t{2}}) {
    expect_always(FindingKind::kNoTensorFence, blocks,
                  [](Kernel& kernel) { kernel.fence_after = ""; });
    EXPECT_EQ(last_.instruction, "tcgen05.ld.sync.aligned.32x32b.x32.b32");
    ASSERT_TRUE(last_.other.has_value());
    EXPECT_TRUE(last_.other->instruction.starts_with("tcgen05.mma"));
    EXPECT_EQ(last_.other->block, (std::array<std::uint32_t, 3>{}));
    expect_always(FindingKind::kRace, blocks, [](Kernel& kernel) { kernel.wait = ""; });
    // The commit does not know of the products behind it.
    expect_always(FindingKind::kRace, blocks,
                  [](Kernel& kernel) { std::swap(kernel.products, kernel.commit); });
  }
}

TEST_F(Tcgen05FindingsTest, FindsCommitsOfAnotherThread) {
  // The second thread of the warp commits what the first one has issued.
  expect_always(FindingKind::kRace, 1, [](Kernel& kernel) {
    kernel.wait =
        "setp.eq.u32 %p3, %r1, 1;\n@!%p3 bra OTHERS;\n" + kernel.commit + "OTHERS:\n" + kernel.wait;
    kernel.commit = "";
  });
}

TEST_F(Tcgen05FindingsTest, FindsRegistersThatAreNotLoaded) {
  expect_always(FindingKind::kUninitialized, 1, [](Kernel& kernel) { kernel.wait_load = ""; });
  EXPECT_NE(last_.message.find("tcgen05.wait::ld"), std::string::npos) << last_.message;
  expect_always(FindingKind::kUninitialized, 1,
                [](Kernel& kernel) { kernel.loads += "mov.u32 %d3, 0;\n"; });
  expect_always(FindingKind::kUninitialized, 1,
                [](Kernel& kernel) { kernel.wait_load = "tcgen05.wait::st.sync.aligned;\n"; });
}

// In machine code an access waits for the load of its register; the wait orders tensor memory.
TEST_F(Tcgen05FindingsTest, RegistersMayBeUsedWithoutAWaitAsOnHardware) {
  Kernel kernel = good(1);
  put(kE4M3, 1);
  ASSERT_TRUE(run(kernel.text(), 1).is_clean());
  const std::vector<std::uint32_t> expected = results(0);
  kernel.last_sync = kernel.wait_load + kernel.fence_before + kernel.last_sync;
  kernel.wait_load = "";
  kernel.fence_before = "";
  EXPECT_EQ(of(kernel), Kinds{FindingKind::kUninitialized}) << last_.text();
  options_.check_tensor_waits = false;
  put(kE4M3, 1);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    options_.seed = seed;
    const Report report = run(kernel.text(), 1, options_);
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    EXPECT_EQ(results(0), expected);
  }
  // What the wait would write may have been replaced.
  kernel.more = "mov.b32 %d0, 7;\n";
  ASSERT_TRUE(run(kernel.text(), 1, options_).is_clean());
  EXPECT_EQ(results(0).front(), 7U);
  kernel.last_sync = "bar.sync 0;\n";
  EXPECT_EQ(of(kernel), Kinds{FindingKind::kRace}) << last_.text();
}

TEST_F(Tcgen05FindingsTest, FindsProductsOverWhatIsLoaded) {
  const std::string_view before = "tcgen05.fence::before_thread_sync;";
  const std::string_view after = "tcgen05.fence::after_thread_sync;";
  EXPECT_EQ(of(twice(before, after)), Kinds{}) << last_.text();
  EXPECT_EQ(of(twice("", after)), Kinds{FindingKind::kNoTensorFence});
  EXPECT_TRUE(last_.instruction.starts_with("tcgen05.mma"));
  ASSERT_TRUE(last_.other.has_value());
  EXPECT_TRUE(last_.other->instruction.starts_with("tcgen05.ld"));
  EXPECT_EQ(of(twice(before, "")), Kinds{FindingKind::kNoTensorFence});
  // Loads that nobody has waited for may come late: fences alone give no order.
  Kernel late = twice(before, after);
  late.last_sync += std::exchange(late.wait_load, "");
  EXPECT_EQ(of(late), Kinds{FindingKind::kRace}) << last_.text();
  EXPECT_EQ(clean_, 0U);
}

TEST_F(Tcgen05FindingsTest, LetsFencesBeMissingIfAsked) {
  const std::string text = twice("", "").text();
  put(kE4M3, 1);
  EXPECT_EQ(run(text, 1).findings.size(), 1U);
  const Report report = run(text, 1, {.check_tensor_fences = false});
  EXPECT_TRUE(report.is_clean()) << report.findings.front().text();
}

TEST_F(Tcgen05FindingsTest, FindsProductsThatHaveNoOrder) {
  // Into overlapping accumulators, or the same with another shape.
  expect_always(FindingKind::kRace, 1, [](Kernel& kernel) {
    kernel.allocate(128);
    kernel.products += products(kE4M3, 1, 128, 64, 1, 32);
  });
  expect_always(FindingKind::kRace, 1,
                [](Kernel& kernel) { kernel.products += products(kE4M3, 1, 128, 32, 1); });
  expect_clean(1, [](Kernel& kernel) { kernel.products += products(kE4M3, 1, 128, 64, 1); });
}

// As in attention: P is A of a product, and the next S goes where it was.
TEST_F(Tcgen05FindingsTest, ProductsMayWriteOverWhatEarlierOnesMultiply) {
  const std::string with_a = fmt::format(
      "mov.u32 %r20, {};\n"
      "tcgen05.mma.cta_group::1.kind::f8f6f4 [%r3+64], [%r3], %rd11, %r20, %p7;\n",
      kE4M3.descriptor(128, 64));
  const auto kernel_of = [&](bool is_read_first) {
    Kernel kernel =
        twice("tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;");
    kernel.allocate(128);
    const std::string over = products(kE4M3, 1, 128, 64);
    kernel.more.replace(kernel.more.find(over), over.size(),
                        is_read_first ? with_a + over : over + with_a);
    return kernel;
  };
  EXPECT_EQ(of(kernel_of(true)), Kinds{}) << last_.text();
  // What was just written cannot be A without a wait.
  EXPECT_EQ(of(kernel_of(false)), Kinds{FindingKind::kRace});
  EXPECT_EQ(clean_, 0U);
}

// The lanes of a pair's second block may count from 128 on.
TEST_F(Tcgen05FindingsTest, IgnoresTheRankInLanes) {
  const std::string add = "shl.b32 %r22, {}, 23;\nadd.u32 %r6, %r6, %r22;\n";
  const auto with_lanes = [&](std::string_view number) {
    return [&, number](Kernel& kernel) {
      kernel.fence_after += fmt::format(fmt::runtime(add), number);
    };
  };
  expect_clean(2, with_lanes("%r7"));
  const auto first = [&](Kernel& kernel) {
    kernel.fence_after += "xor.b32 %r23, %r7, 1;\n" + fmt::format(fmt::runtime(add), "%r23");
  };
  expect_always(FindingKind::kIllegalOperand, 2, first);
  expect_always(FindingKind::kIllegalOperand, 1, first);
}

TEST_F(Tcgen05FindingsTest, FindsStoresThatAreNotWaitedFor) {
  const auto store = [](std::string_view wait) {
    return [wait](Kernel& kernel) {
      kernel.more = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%d1};\n" + std::string(wait) +
                    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d1}, [%r6];\n" + kernel.wait_load;
    };
  };
  expect_clean(1, store("tcgen05.wait::st.sync.aligned;\n"));
  expect_always(FindingKind::kRace, 1, store(""));
  EXPECT_TRUE(last_.other->instruction.starts_with("tcgen05.st"));
  expect_always(FindingKind::kRace, 1, store("tcgen05.wait::ld.sync.aligned;\n"));
}

TEST_F(Tcgen05FindingsTest, FindsSharedMemoryWithoutProxyFence) {
  expect_always(FindingKind::kNoProxyFence, 1,
                [](Kernel& kernel) { kernel.after_allocation = ""; });
  expect_always(FindingKind::kNoProxyFence, 2,
                [](Kernel& kernel) { kernel.after_allocation = ""; });
  // What is written over is read before the commit's arrival alone.
  const std::string write = "st.shared.u32 [%r2], %r1;\n";
  expect_always(FindingKind::kRace, 1, [&](Kernel& kernel) {
    kernel.wait = "@!%p1 bra NO_WRITE;\n" + write + "NO_WRITE:\n" + kernel.wait;
  });
  expect_clean(
      1, [&](Kernel& kernel) { kernel.wait += "@!%p1 bra NO_WRITE;\n" + write + "NO_WRITE:\n"; });
}

TEST_F(Tcgen05FindingsTest, FindsWhatIsWrongWithAllocations) {
  for (const std::size_t blocks : {std::size_t{1}, std::size_t{2}}) {
    expect_always(FindingKind::kLifetime, blocks, [](Kernel& kernel) { kernel.deallocation = ""; });
    EXPECT_NE(last_.message.find("0 to 63"), std::string::npos) << last_.message;
    expect_always(FindingKind::kIllegalOperand, blocks, [](Kernel& kernel) {
      kernel.allocation += kernel.allocation;  // after relinquish_alloc_permit
    });
    const auto sized = [&](std::string_view columns) {
      return [columns, blocks](Kernel& kernel) {
        kernel.allocation =
            fmt::format("tcgen05.alloc.cta_group::{}.sync.aligned.shared::cta.b32 [slot], {};\n",
                        blocks, columns);
      };
    };
    expect_always(FindingKind::kIllegalOperand, blocks, sized("48"));
    expect_always(FindingKind::kIllegalOperand, blocks, sized("16"));
    expect_always(FindingKind::kOutOfBounds, blocks, sized("32"));
    expect_always(FindingKind::kIllegalOperand, blocks, sized("128"));  // and gives back 64
    // The second one must not be larger.
    const auto two = [&](std::size_t first, std::size_t second) {
      return [=](Kernel& kernel) {
        kernel.allocation = fmt::format(
            "tcgen05.alloc.cta_group::{0}.sync.aligned.shared::cta.b32 [slot], {1};\n"
            "tcgen05.alloc.cta_group::{0}.sync.aligned.shared::cta.b32 [slot], {2};\n",
            blocks, first, second);
        kernel.deallocation = fmt::format(
            "tcgen05.dealloc.cta_group::{0}.sync.aligned.b32 %r3, {2};\nsub.u32 %r3, %r3, {1};\n"
            "tcgen05.dealloc.cta_group::{0}.sync.aligned.b32 %r3, {1};\n",
            blocks, first, second);
      };
    };
    expect_clean(blocks, two(128, 64));
    expect_always(FindingKind::kIllegalOperand, blocks, two(64, 128));
    EXPECT_NE(last_.message.find("more than the 64"), std::string::npos) << last_.message;
    // There is no room, and nobody makes any.
    expect_always(FindingKind::kDeadlock, blocks, [&](Kernel& kernel) {
      kernel.allocation = fmt::format(
          "tcgen05.alloc.cta_group::{0}.sync.aligned.shared::cta.b32 [slot], 512;\n"
          "tcgen05.alloc.cta_group::{0}.sync.aligned.shared::cta.b32 [slot], 32;\n",
          blocks);
    });
    EXPECT_NE(last_.message.find("32 columns of tensor memory"), std::string::npos)
        << last_.message;
    expect_always(FindingKind::kDivergent, blocks, [](Kernel& kernel) {
      kernel.allocation = "setp.lt.u32 %p3, %r1, 5;\n@%p3 bra NO_ALLOC;\n" + kernel.allocation;
    });
  }
}

TEST_F(Tcgen05FindingsTest, FindsGroupsThatAreMixed) {
  expect_always(FindingKind::kIllegalOperand, 2, [](Kernel& kernel) {
    kernel.commit =
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];\n";
  });
  // A block alone is no pair.
  expect_always(FindingKind::kIllegalOperand, 1,
                [](Kernel& kernel) { kernel.allocation = Kernel(2).allocation; });
}

TEST_F(Tcgen05FindingsTest, FindsMemoryGivenBackTooEarly) {
  // Before the others have loaded, of the block itself and of the other one.
  expect_always(FindingKind::kRace, 1, [](Kernel& kernel) { kernel.last_sync = ""; });
  const Kinds kinds = with(2, [](Kernel& kernel) { kernel.last_sync = "bar.sync 0;\n"; });
  EXPECT_EQ(clean_, 0U);
  for (const FindingKind kind : kinds) {
    EXPECT_TRUE(kind == FindingKind::kRace || kind == FindingKind::kLifetime) << last_.text();
  }
}

constexpr std::string_view kArrive = "barrier.cluster.arrive.aligned;\n";
constexpr std::string_view kWait = "barrier.cluster.wait.aligned;\n";

// The second block loads once more when it knows that the first one has loaded, which does not wait
// for it.
TEST_F(Tcgen05FindingsTest, FindsAccessesBehindTheOtherBlocksEnd) {
  const Kinds kinds = with(2, [](Kernel& kernel) {
    kernel.more = fmt::format("{}{}setp.ne.u32 %p3, %r7, 0;\n", kernel.sync, kArrive);
    kernel.last_sync = fmt::format(
        "@!%p3 bra FIRST;\n{1}mov.u32 %r30, 0;\nLATE:\nadd.u32 %r30, %r30, 1;\n"
        "setp.lt.u32 %p4, %r30, 60;\n@%p4 bra LATE;\n"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%d1}}, [%r6];\n{2}FIRST:\n"
        "bar.sync 0;\n@%p5 bra GIVEN;\n{0}GIVEN:\n@%p3 bra END;\n{1}bra END;\n",
        kernel.deallocation, kWait, kernel.wait_load);
    kernel.deallocation = "";
  });
  EXPECT_EQ(kinds, (Kinds{FindingKind::kLifetime, FindingKind::kRace})) << last_.text();
  EXPECT_EQ(clean_, 0U);
}

// dealloc may wait for the other block, or not (PTX ISA, table 48): here the first block comes to
// it behind a barrier of the cluster, to which the second one comes behind it.
TEST_F(Tcgen05FindingsTest, FindsThatTheEndMayWait) {
  const Kinds kinds = with(2, [](Kernel& kernel) {
    kernel.last_sync += fmt::format(
        "setp.ne.u32 %p3, %r7, 0;\n@%p3 bra SECOND;\n{0}{1}bra GIVE;\n"
        "SECOND:\n@%p5 bra GIVEN;\n{2}GIVEN:\n{0}{1}bra END;\nGIVE:\n",
        kArrive, kWait, kernel.deallocation);
  });
  EXPECT_EQ(kinds, Kinds{FindingKind::kDeadlock}) << last_.text();
  EXPECT_GT(clean_, 0U);
}

TEST_F(Tcgen05FindingsTest, FindsBlocksThatEndTooEarly) {
  // The second block leaves while the first one's products are under way.
  const Kinds kinds = with(2, [](Kernel& kernel) {
    kernel.wait = "setp.ne.u32 %p3, %r7, 0;\n@%p3 bra EARLY;\n" + kernel.wait;
    kernel.last_sync = "EARLY:\nbar.sync 0;\n";
  });
  EXPECT_EQ(clean_, 0U);
  for (const FindingKind kind : kinds) {
    EXPECT_TRUE(kind == FindingKind::kRace || kind == FindingKind::kLifetime) << last_.text();
  }
}

TEST_F(Tcgen05FindingsTest, FindsArrivalsThatNobodyWaitsFor) {
  for (const std::size_t blocks : {std::size_t{1}, std::size_t{2}}) {
    const auto also = [](bool is_first) {
      return [is_first](Kernel& kernel) {
        std::string other = kernel.commit;
        other.replace(other.find("%r5"), 3, "%r21");
        other = "mov.u32 %r21, other;\n" + other;
        kernel.commit = is_first ? other + kernel.commit : kernel.commit + other;
      };
    };
    // What comes before another commit of the thread has come when that one has; not in the other
    // block.
    if (blocks == 1) {
      expect_clean(blocks, also(true));
    } else {
      expect_always(FindingKind::kLifetime, blocks, also(true));
    }
    expect_always(FindingKind::kLifetime, blocks, also(false));
    EXPECT_TRUE(last_.instruction.starts_with("tcgen05.commit")) << last_.text();
    options_.check_late_commits = false;
    expect_clean(blocks, also(true));
    expect_always(FindingKind::kLifetime, blocks, also(false));
    options_.check_late_commits = true;
  }
}

TEST_F(Tcgen05FindingsTest, FindsWhatIsWrongWithOperands) {
  // Lanes of another warp; the first ones stand for its own.
  expect_always(FindingKind::kIllegalOperand, 1,
                [](Kernel& kernel) { kernel.fence_after += "xor.b32 %r6, %r6, 4194304;\n"; });
  expect_clean(1, [](Kernel& kernel) { kernel.fence_after += "mov.u32 %r6, %r3;\n"; });
  expect_always(FindingKind::kMisaligned, 1,
                [](Kernel& kernel) { kernel.fence_after += "add.u32 %r6, %r6, 1048576;\n"; });
  // Lanes that give different addresses.
  expect_always(FindingKind::kIllegalOperand, 1,
                [](Kernel& kernel) { kernel.fence_after += "add.u32 %r6, %r6, %r1;\n"; });
  expect_always(FindingKind::kUninitialized, 1, [](Kernel& kernel) {
    kernel.products.replace(kernel.products.find("%p7"), 3, "%p6");  // adds to nothing
  });
  expect_always(FindingKind::kOutOfBounds, 1, [](Kernel& kernel) {
    kernel.products = "add.s64 %rd10, %rd10, 16000;\n" + kernel.products;
  });
  expect_always(FindingKind::kIllegalOperand, 1, [](Kernel& kernel) {
    kernel.products = "add.s64 %rd10, %rd10, 1;\nxor.b64 %rd10, %rd10, 70368744177664;\n" +
                      kernel.products;  // bit 46 is clear
  });
  expect_always(FindingKind::kBarrierMisuse, 1, [](Kernel& kernel) {
    kernel.commit =
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];\n";
  });
  expect_always(FindingKind::kIllegalOperand, 2, [](Kernel& kernel) {
    kernel.commit.replace(kernel.commit.find(", 3;"), 4, ", 5;");  // a block that is not there
  });
}

TEST_F(Tcgen05FindingsTest, RefusesWhatItDoesNotKnow) {
  for (const std::string_view instruction :
       {"tcgen05.mma.ws.cta_group::1.kind::f16 [%r3], %rd10, %rd11, %r20, %p6;",
        "tcgen05.mma.sp.cta_group::1.kind::f16 [%r3], %rd10, %rd11, [%r4], %r20, %p6;",
        "tcgen05.mma.cta_group::1.kind::tf32 [%r3], %rd10, %rd11, %r20, %p6;",
        "tcgen05.mma.cta_group::1.kind::mxf4.block_scale [%r3], %rd10, %rd11, %r20, [%r4], [%r5], "
        "%p6;",
        "tcgen05.mma.cta_group::1.kind::f16.ashift [%r3], [%r4], %rd11, %r20, %p6;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r3], %rd10, %rd11, %r20, %p6, 1;",
        "tcgen05.shift.cta_group::1.down [%r3];", "tcgen05.cp.cta_group::1.4x256b [%r3], %rd10;",
        "tcgen05.cp.cta_group::1.32x128b [%r3], %rd10;",
        "tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [%r3], %rd10;",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%d0}, [%r3];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%d0, %d0}, [%r3];",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%d0, %d1}, %d2, [%r3];",
        "tcgen05.ld.sync.aligned.16x256b.x64.b32 {%d0}, [%r3];",
        "tcgen05.alloc.sync.aligned.b32 [%r3], 32;"}) {
    Kernel kernel(1);
    kernel.more = instruction;
    EXPECT_THROW(device_.load(kernel.text()), Error) << instruction;
  }
}

}  // namespace
}  // namespace emu::tcgen05
