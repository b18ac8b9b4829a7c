// What goes to and from tensor memory without products: tcgen05.ld, st and cp.
#include "tests/emulator/tcgen05_fixture.hpp"

namespace emu::tcgen05 {
namespace {

// A shape of moves, and where it has the first word of a register (PTX ISA 9.7.16.2.3, CUTLASS,
// include/cute/atom/copy_traits_sm100.hpp): written out once more, by bits of the lane.
struct Shape {
  std::string_view name;
  std::size_t lanes;
  std::size_t registers;  // of .x1
  std::size_t (*lane_of)(std::size_t lane, std::size_t r);
  std::size_t (*column_of)(std::size_t lane, std::size_t r);
};
constexpr std::array<Shape, 4> kShapes = {{
    {"32x32b", 32, 1, [](std::size_t lane, std::size_t) { return lane; },
     [](std::size_t, std::size_t r) { return r; }},
    {"16x64b", 16, 1,
     [](std::size_t lane, std::size_t) { return (lane >> 2U) | (lane & 1U) << 3U; },
     [](std::size_t lane, std::size_t r) { return 2 * r + (lane >> 1U & 1U); }},
    {"16x128b", 16, 2,
     [](std::size_t lane, std::size_t r) { return (lane >> 2U) | (r & 1U) << 3U; },
     [](std::size_t lane, std::size_t r) { return 4 * (r >> 1U) + (lane & 3U); }},
    {"16x256b", 16, 4,
     [](std::size_t lane, std::size_t r) { return (lane >> 2U) | (r >> 1U & 1U) << 3U; },
     [](std::size_t lane, std::size_t r) { return 8 * (r >> 2U) + 2 * (lane & 3U) + (r & 1U); }},
}};

class Tcgen05MovesTest : public KernelTest {
 protected:
  // A kernel that multiplies nothing: each lane stores numbers of its own as `stores` has them, and
  // gives back what `loads` reads.
  static Kernel moves(std::size_t columns, std::string_view stores, std::string_view loads) {
    Kernel kernel(1, columns);
    kernel.allocate(512);
    kernel.products = "";
    kernel.commit = "";
    kernel.wait = "";
    kernel.fence_after = "";
    kernel.loads = "mov.u32 %r30, %r6;\n";
    for (std::size_t i = 0; i < columns; ++i) {
      kernel.loads += fmt::format("mad.lo.u32 %d{}, %r1, 65536, {};\n", i, i);
    }
    kernel.loads += std::string(stores) + "tcgen05.wait::st.sync.aligned;\n" + std::string(loads);
    return kernel;
  }
  std::vector<std::uint32_t> after(const Kernel& kernel) {
    put(kE4M3, 1);
    for (unsigned seed = 0; seed < 4; ++seed) {
      const Report report = run(kernel.text(), 1, {.seed = seed});
      EXPECT_TRUE(report.is_clean()) << report.findings.front().text();
    }
    std::vector<std::uint32_t> words = results(0);
    device_.free(address_);
    return words;
  }
};

// Stored as 32x32b has it and loaded in another shape, and the other way round.
TEST_F(Tcgen05MovesTest, MovesEveryShape) {
  for (const Shape& shape : kShapes) {
    for (const std::size_t times : {std::size_t{1}, std::size_t{4}, std::size_t{16}}) {
      const std::size_t registers = times * shape.registers;
      const std::size_t columns = shape.lanes == 32 ? registers : 2 * registers;
      for (const std::size_t half : {std::size_t{0}, 32 - shape.lanes}) {
        // Columns from 3 on, and the lower or upper lanes.
        const std::string there =
            fmt::format("tcgen05.st.sync.aligned.32x32b.x{}.b32 [%r30+3], {};\n", columns,
                        Kernel::list(0, columns));
        const std::string back =
            fmt::format("tcgen05.ld.sync.aligned.{}.x{}.b32 {}, [%r30+{}];\n", shape.name, times,
                        Kernel::list(0, registers), 3 + (half << 16U));
        const std::vector<std::uint32_t> words =
            after(moves(std::max(columns, registers), there, back));
        for (std::size_t thread = 0; thread < kThreads; ++thread) {
          for (std::size_t r = 0; r < registers; ++r) {
            const std::size_t lane = thread / 32 * 32 + half + shape.lane_of(thread % 32, r);
            ASSERT_EQ(words[thread * 512 + r], lane << 16U | shape.column_of(thread % 32, r))
                << shape.name << " x" << times << " thread " << thread << " register " << r;
          }
        }
      }
    }
  }
}

TEST_F(Tcgen05MovesTest, StoresEveryShape) {
  for (const Shape& shape : kShapes) {
    const std::size_t registers = 4 * shape.registers;
    const std::size_t columns = shape.lanes == 32 ? registers : 2 * registers;
    std::string there;
    for (std::size_t half = 0; half < 32; half += shape.lanes) {
      there += fmt::format("tcgen05.st.sync.aligned.{}.x4.b32 [%r30+{}], {};\n", shape.name,
                           half << 16U, Kernel::list(0, registers));
    }
    const std::string back = fmt::format("tcgen05.ld.sync.aligned.32x32b.x{}.b32 {}, [%r30];\n",
                                         columns, Kernel::list(0, columns));
    const std::vector<std::uint32_t> words = after(moves(columns, there, back));
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      for (std::size_t r = 0; r < registers; ++r) {
        for (std::size_t half = 0; half < 32; half += shape.lanes) {
          const std::size_t lane = thread / 32 * 32 + half + shape.lane_of(thread % 32, r);
          ASSERT_EQ(words[lane * 512 + shape.column_of(thread % 32, r)], thread << 16U | r)
              << shape.name << " thread " << thread << " register " << r;
        }
      }
    }
  }
}

TEST_F(Tcgen05MovesTest, MovesTwoHalves) {
  const std::vector<std::uint32_t> words = after(moves(
      32, fmt::format("tcgen05.st.sync.aligned.32x32b.x32.b32 [%r30], {};\n", Kernel::list(0, 32)),
      "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%d0, %d1}, [%r30], 20;\n"));
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    for (std::size_t r = 0; r < 2; ++r) {
      const std::size_t lane = thread / 32 * 32 + thread % 16;
      const std::size_t column = r + (thread % 32 >= 16 ? 20 : 0);
      ASSERT_EQ(words[thread * 512 + r], lane << 16U | column) << thread;
    }
  }
}

// Two words' low halves in a register, and back.
TEST_F(Tcgen05MovesTest, PacksHalves) {
  const std::string four = Kernel::list(0, 4);
  const std::string eight = Kernel::list(0, 8);
  const std::vector<std::uint32_t> packed =
      after(moves(8, "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r30], " + eight + ";\n",
                  "tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 " + four + ", [%r30];\n"));
  const std::vector<std::uint32_t> apart =
      after(moves(8, "tcgen05.st.sync.aligned.32x32b.x4.unpack::16b.b32 [%r30], " + four + ";\n",
                  "tcgen05.ld.sync.aligned.32x32b.x8.b32 " + eight + ", [%r30];\n"));
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    for (std::size_t r = 0; r < 4; ++r) {
      ASSERT_EQ(packed[thread * 512 + r], (2 * r + 1) << 16U | 2 * r);
      ASSERT_EQ(apart[thread * 512 + 2 * r], r);
      ASSERT_EQ(apart[thread * 512 + 2 * r + 1], thread);
    }
  }
}

// Rows of 16 or 32 bytes in shared memory, in groups of eight that lie `stride` apart, without a
// swizzle.
TEST_F(Tcgen05MovesTest, CopiesFromSharedMemory) {
  struct Copy {
    std::string_view name;
    std::size_t words;
    std::size_t (*row_of)(std::size_t lane);
  };
  constexpr std::array<Copy, 5> kCopies = {{
      {"128x256b", 8, [](std::size_t lane) { return lane; }},
      {"128x128b", 4, [](std::size_t lane) { return lane; }},
      {"64x128b.warpx2::02_13", 4, [](std::size_t lane) { return lane % 64; }},
      {"64x128b.warpx2::01_23", 4, [](std::size_t lane) { return lane / 64 * 32 + lane % 32; }},
      {"32x128b.warpx4", 4, [](std::size_t lane) { return lane % 32; }},
  }};
  constexpr std::size_t kLeading = 4096;
  constexpr std::size_t kStride = 256;
  for (const std::size_t blocks : {std::size_t{1}, std::size_t{2}}) {
    for (const Copy& copy : kCopies) {
      Kernel kernel(blocks, 32);
      kernel.products = fmt::format(
          "mov.u64 %rd20, {};\nadd.s64 %rd20, %rd20, %rd6;\n"
          "tcgen05.cp.cta_group::{}.{} [%r3], %rd20;\n",
          std::uint64_t{kLeading / 16} << 16U | std::uint64_t{kStride / 16} << 32U | 1ULL << 46U,
          blocks, copy.name);
      kernel.loads = fmt::format("tcgen05.ld.sync.aligned.32x32b.x{}.b32 {}, [%r6];\n", copy.words,
                                 Kernel::list(0, copy.words));
      for (std::size_t i = copy.words; i < 32; ++i) {
        kernel.loads += fmt::format("mov.u32 %d{}, 0;\n", i);
      }
      put(kE4M3, blocks);
      for (std::size_t i = 0; i < memory_.size(); i += 4) {
        const auto word = static_cast<std::uint32_t>(i * 2654435761U);
        std::memcpy(&memory_[i], &word, 4);
      }
      const Report report = run(kernel.text(), blocks, {.seed = 3});
      ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
      for (std::size_t block = 0; block < blocks; ++block) {
        const std::vector<std::uint32_t> words = results(block);
        for (std::size_t lane = 0; lane < 128; ++lane) {
          for (std::size_t word = 0; word < copy.words; ++word) {
            const std::size_t row = copy.row_of(lane);
            std::uint32_t expected = 0;
            std::memcpy(&expected,
                        &memory_[block * kBlockBytes + word / 4 * kLeading + row / 8 * kStride +
                                 row % 8 * 16 + word % 4 * 4],
                        4);
            ASSERT_EQ(words[lane * 512 + word], expected)
                << copy.name << " block " << block << " lane " << lane << " word " << word;
          }
        }
      }
      device_.free(address_);
    }
  }
}

}  // namespace
}  // namespace emu::tcgen05
