// Kernels with tcgen05: the products of one block and of a pair.
#include "tests/emulator/tcgen05_fixture.hpp"

namespace emu::tcgen05 {
namespace {

class Tcgen05Test : public KernelTest {
 protected:
  // D (rows, columns) of all blocks, of which each lane has stored a row.
  void expect_products(const Kind& kind, std::size_t blocks, std::size_t rows,
                       std::size_t columns) {
    const std::size_t depth = 128 / kind.element_bytes;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::vector<std::uint32_t> words = results(block);
      for (std::size_t lane = 0; lane < 128; ++lane) {
        for (std::size_t column = 0; column < columns; ++column) {
          const int expected = product_of(blocks, rows, columns, block * 128 + lane, column, depth);
          const std::uint32_t word = words[lane * 512 + column];
          const int actual = kind.result == 2 ? static_cast<int>(word)
                                              : static_cast<int>(std::bit_cast<float>(word));
          ASSERT_EQ(actual, expected)
              << kind.name << " block " << block << " lane " << lane << " column " << column;
        }
      }
    }
  }
};

TEST_F(Tcgen05Test, Multiplies) {
  for (const Kind& kind : {kE4M3, kBF16, kS8}) {
    for (const std::size_t blocks : {std::size_t{1}, std::size_t{2}}) {
      const std::size_t rows = 128 * blocks;
      Kernel kernel(blocks, 64);
      kernel.products = products(kind, blocks, rows, 64);
      put(kind, blocks);
      for (unsigned seed = 0; seed < 8; ++seed) {
        const Report report = run(kernel.text(), blocks, {.seed = seed});
        ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
        expect_products(kind, blocks, rows, 64);
      }
    }
  }
}

}  // namespace
}  // namespace emu::tcgen05
