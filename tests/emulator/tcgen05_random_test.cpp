// Kernels that run one tcgen05.mma of any form on random memory of a block or a pair: all of tensor
// memory must be what the product alone makes of it.
#include <span>

#include "tests/emulator/tcgen05_fixture.hpp"
#include "tests/emulator/tcgen05_reference.hpp"

namespace emu::tcgen05 {
namespace {

using reference::UmmaCase;
using reference::UmmaMemories;

constexpr std::size_t kShared = UmmaMemories::kShared;
constexpr std::size_t kFirst = 1024;  // of shared memory that kernels have
constexpr std::size_t kMemoryOfBlock = kShared + kTensorWords * 4;
constexpr std::size_t kChunk = 128;  // columns that are moved at once

std::string text_of(const UmmaCase& umma, const UmmaProduct& product) {
  std::string fills;
  std::string gives;
  for (std::size_t first = 0; first < kTensorColumns; first += kChunk) {
    for (std::size_t i = 0; i < kChunk; ++i) {
      fills += fmt::format("  ld.global.b32 %d{}, [%rd3+{}];\n", i, 4 * (first + i));
    }
    fills += fmt::format("  tcgen05.st.sync.aligned.32x32b.x{}.b32 [%r6+{}], {};\n", kChunk, first,
                         Kernel::list(0, kChunk));
    gives += fmt::format(
        "  tcgen05.ld.sync.aligned.32x32b.x{}.b32 {}, [%r6+{}];\n"
        "  tcgen05.wait::ld.sync.aligned;\n",
        kChunk, Kernel::list(0, kChunk), first);
    for (std::size_t i = 0; i < kChunk; ++i) {
      gives += fmt::format("  st.global.b32 [%rd3+{}], %d{};\n", 4 * (first + i), i);
    }
  }
  constexpr std::array<std::string_view, 4> kNames = {"f16", "f8f6f4", "i8",
                                                      "mxf8f6f4.block_scale.block32"};
  const bool has_scales = product.form.has_scales();
  std::string masks;
  for (std::size_t i = 0; i < 4 * umma.blocks; ++i) {
    masks += fmt::format("{}{}", i == 0 ? ", {" : ", ", product.disabled_lanes.at(i));
  }
  masks = has_scales ? "" : masks + "}";
  const std::string allocation = fmt::format(
      "tcgen05.alloc.cta_group::{}.sync.aligned.shared::cta.b32 [slot], 512;", umma.blocks);
  return beginning(kShared - kFirst, allocation, kFirst) +
         fmt::format(
             R"(  fence.proxy.async.shared::cta;
  bar.sync 0;
  ld.shared.u32 %r3, [slot];
  shl.b32 %r6, %r4, 21;
  add.u32 %r6, %r6, %r3;
{fills}
  tcgen05.wait::st.sync.aligned;
  tcgen05.fence::before_thread_sync;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  tcgen05.fence::after_thread_sync;
  shl.b32 %r13, %r1, 1;
  or.b32 %r13, %r13, %r7;
  setp.eq.u32 %p1, %r13, {issuer};
  setp.{adds}.u32 %p6, %r1, %r1;
  @!%p1 bra NO_PRODUCT;
  mov.u32 %r20, {instruction};
  mov.u32 %r21, {d};
  mov.{a_type} {a_register}, {a};
  mov.u64 %rd21, {b};
  mov.u32 %r22, {scale_a};
  mov.u32 %r23, {scale_b};
  tcgen05.mma.cta_group::{blocks}.kind::{kind}.collector::a::fill [%r21], {a_operand}, %rd21, %r20{masks}{scales}, %p6;
  mov.b16 %rs1, {all};
  tcgen05.commit.cta_group::{blocks}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], %rs1;
NO_PRODUCT:
DONE:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;
  @!%p2 bra DONE;
  tcgen05.fence::after_thread_sync;
{gives}
  tcgen05.fence::before_thread_sync;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @%p5 bra END;
  tcgen05.dealloc.cta_group::{blocks}.sync.aligned.b32 %r3, 512;
END:
  ret;
}}
)",
             fmt::arg("blocks", umma.blocks), fmt::arg("fills", fills),
             // Either block of a pair may do it.
             fmt::arg("issuer", umma.columns / 32 % umma.blocks),
             fmt::arg("adds", umma.adds ? "eq" : "ne"),
             fmt::arg("instruction", product.instruction), fmt::arg("d", product.d),
             fmt::arg("a_type", umma.is_a_in_tensor_memory ? "u32" : "u64"),
             fmt::arg("a_register", umma.is_a_in_tensor_memory ? "%r24" : "%rd20"),
             fmt::arg("a_operand", umma.is_a_in_tensor_memory ? "[%r24]" : "%rd20"),
             fmt::arg("a", product.a), fmt::arg("b", product.b),
             fmt::arg("scale_a", product.scale_a), fmt::arg("scale_b", product.scale_b),
             fmt::arg("kind", kNames.at(static_cast<std::size_t>(umma.kind))),
             fmt::arg("masks", masks), fmt::arg("scales", has_scales ? ", [%r22], [%r23]" : ""),
             fmt::arg("all", (1U << umma.blocks) - 1), fmt::arg("gives", gives));
}

class Tcgen05RandomTest : public KernelTest {
 protected:
  void expect_as_alone(const UmmaCase& umma, std::mt19937& random) {
    UmmaMemories memories(umma, random);
    for (unsigned row = 0; umma.kind == UmmaKind::kMxF8F6F4 && row < umma.rows; ++row) {
      memories.set_scale_a(row, 118 + static_cast<unsigned>(random() % 16));
    }
    for (unsigned i = 0; umma.kind == UmmaKind::kMxF8F6F4 && i < umma.columns; ++i) {
      memories.set_scale_b(i, 118 + static_cast<unsigned>(random() % 16));
    }
    if (!umma.form().has_scales() && random() % 2 == 0) {
      for (std::size_t i = 0; i < 4 * umma.blocks; ++i) {
        memories.product.disabled_lanes.at(i) = static_cast<std::uint32_t>(random() & random());
      }
    }
    memory_.clear();
    for (std::size_t block = 0; block < umma.blocks; ++block) {
      const auto tensor = std::as_bytes(std::span(memories.tensor.at(block)));
      memory_.insert(memory_.end(), memories.shared.at(block).begin(),
                     memories.shared.at(block).end());
      memory_.insert(memory_.end(), tensor.begin(), tensor.end());
    }
    address_ = device_.allocate(memory_.size());
    const Report report = run(text_of(umma, memories.product), umma.blocks,
                              {.seed = static_cast<unsigned>(random())});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    const auto both = memories.memory();
    ASSERT_EQ(multiply(memories.product, std::span(both).first(umma.blocks)).reason, "");
    for (std::size_t block = 0; block < umma.blocks; ++block) {
      std::vector<std::uint32_t> words(kTensorWords);
      device_.read(std::as_writable_bytes(std::span(words)),
                   address_ + block * kMemoryOfBlock + kShared);
      ASSERT_EQ(words, memories.tensor.at(block))
          << "block " << block << " kind " << static_cast<int>(umma.kind) << " blocks "
          << umma.blocks << " " << umma.rows << "x" << umma.columns;
    }
    device_.free(address_);
  }
};

TEST_F(Tcgen05RandomTest, IsTheProductAlone) {
  std::mt19937 random(11);
  for (unsigned i = 0; i < 24; ++i) {
    UmmaCase umma;
    umma.kind = static_cast<UmmaKind>(i % 4);
    umma.blocks = 1 + i / 4 % 2;
    umma.rows = 128 * umma.blocks;
    if (umma.kind != UmmaKind::kMxF8F6F4 && random() % 2 == 0) {
      umma.rows /= 2;  // half of the lanes of one block, or a pair's halves side by side
    }
    umma.columns = 32 * (1 + static_cast<unsigned>(random() % 4));
    umma.a = umma.b = umma.kind == UmmaKind::kF16  ? Element::kBF16
                      : umma.kind == UmmaKind::kI8 ? Element::kS8
                                                   : Element::kE4M3;
    umma.is_a_in_tensor_memory = random() % 2 == 0;
    umma.adds = random() % 4 != 0;
    umma.swizzle_of_a = static_cast<unsigned>(random() % 4);
    umma.swizzle_of_b = static_cast<unsigned>(random() % 4);
    umma.scale_a_byte = static_cast<unsigned>(random() % 4);
    umma.scale_b_byte = static_cast<unsigned>(random() % 4);
    umma.lane = umma.rows == 64 ? 16 * static_cast<unsigned>(random() % 2) : 0;
    expect_as_alone(umma, random);
  }
}

}  // namespace
}  // namespace emu::tcgen05
