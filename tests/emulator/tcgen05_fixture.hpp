// Kernels with tcgen05 for tests: pieces that are left out or changed, the operands that they
// multiply, and what must come of it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/emulator/device_fixture.hpp"

namespace emu::tcgen05 {

constexpr unsigned kThreads = 128;
constexpr std::size_t kImageBytes = 64 << 10U;  // of a block's shared memory
constexpr std::size_t kResultBytes = std::size_t{128} * 512 * 4;
constexpr std::size_t kBlockBytes = kImageBytes + kResultBytes;
// Where they are in it.
constexpr std::uint32_t kB = 16 << 10U;
constexpr std::uint32_t kScaleA = 48 << 10U;
constexpr std::uint32_t kScaleB = 49 << 10U;

/// How a thread waits at the mbarrier whose address is in a register.
inline std::string wait_at(std::string_view mbarrier, std::string_view label, unsigned parity = 0) {
  return fmt::format(R"(
{1}:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [{0}], {2};
  @!%p2 bra {1};
)",
                     mbarrier, label, parity);
}

/// The beginning of a kernel `test` of one block or of a pair: it fills the image of shared memory,
/// initialises the mbarriers `done` (one arrival) and `other` (all threads'), and has the first
/// warp run `allocation`, which writes to `slot`. A block's memory has `first` bytes that are left
/// out, the image, and 2048 bytes for each thread. Registers: %r1 the thread, %r2 the image's
/// address, %r4 the warp, %r5 the address of `done`, %r7 the block's rank, %rd1 its memory, %rd3
/// the thread's bytes of it; %p5: not of the first warp.
inline std::string beginning(std::size_t image_bytes, std::string_view allocation,
                             std::size_t first = 0) {
  return fmt::format(
      R"(.version 9.0
.target sm_100a
.address_size 64
.shared .align 1024 .b8 image[{image}];
.shared .align 8 .b8 done[8];
.shared .align 8 .b8 other[8];
.shared .align 4 .b8 slot[4];
.visible .entry test(.param .u64 memory)
{{
  .reg .pred %p<8>;
  .reg .b16 %rs<8>;
  .reg .b32 %d<512>;
  .reg .b32 %r<40>;
  .reg .b64 %rd<40>;
  ld.param.u64 %rd1, [memory];
  mov.u32 %r7, %cluster_ctarank;
  mul.wide.u32 %rd2, %r7, {block};
  add.s64 %rd1, %rd1, %rd2;
  mov.u32 %r1, %tid.x;
  shr.u32 %r4, %r1, 5;
  mov.u32 %r2, image;
  mov.u32 %r5, done;
  mul.wide.u32 %rd2, %r1, 2048;
  add.s64 %rd3, %rd1, %rd2;
  add.s64 %rd3, %rd3, {results};
  mov.u32 %r8, %r1;
FILL:
  shl.b32 %r9, %r8, 2;
  add.u32 %r10, %r2, %r9;
  cvt.u64.u32 %rd4, %r9;
  add.s64 %rd5, %rd1, %rd4;
  ld.global.u32 %r11, [%rd5+{first}];
  st.shared.u32 [%r10], %r11;
  add.u32 %r8, %r8, {threads};
  setp.lt.u32 %p3, %r8, {words};
  @%p3 bra FILL;
  setp.ne.u32 %p4, %r1, 0;
  @%p4 bra NO_INIT;
  mbarrier.init.shared::cta.b64 [done], 1;
  mbarrier.init.shared::cta.b64 [other], {threads};
  fence.mbarrier_init.release.cluster;
NO_INIT:
  setp.ne.u32 %p5, %r4, 0;
  @%p5 bra NO_ALLOC;
{allocation}
NO_ALLOC:
)",
      fmt::arg("image", image_bytes), fmt::arg("block", first + image_bytes + kResultBytes),
      fmt::arg("results", first + image_bytes), fmt::arg("first", first),
      fmt::arg("threads", kThreads), fmt::arg("words", image_bytes / 4),
      fmt::arg("allocation", allocation));
}

/// A kernel of one block, or of a pair, whose image of shared memory is filled, tensor memory
/// allocated, multiplied in by the first thread of (the first) block, and stored. Registers beside
/// those of its beginning: %r3 the address in tensor memory, %r6 that of the warp's lanes; %rd10
/// and %rd11 the descriptors of A and B; %p1: the first thread of all.
struct Kernel {
  std::size_t blocks = 1;
  std::size_t columns = 64;  // of a result
  std::string allocation{};
  std::string after_allocation = "fence.proxy.async;\n";
  std::string sync{};
  std::string products{};  // by one thread
  std::string commit{};    // likewise
  std::string wait = wait_at("%r5", "DONE");
  std::string fence_after = "tcgen05.fence::after_thread_sync;\n";
  std::string loads{};
  std::string wait_load = "tcgen05.wait::ld.sync.aligned;\n";
  std::string fence_before = "tcgen05.fence::before_thread_sync;\n";
  std::string more{};  // by all threads, before the end
  std::string last_sync{};
  std::string deallocation{};

  explicit Kernel(std::size_t of_blocks = 1, std::size_t of_columns = 64)
      : blocks(of_blocks), columns(of_columns) {
    sync = blocks == 1 ? "bar.sync 0;\n"
                       : "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
    last_sync = sync;
    allocate(std::bit_ceil(columns));
    commit = blocks == 1
                 ? "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];\n"
                 : "mov.b16 %rs1, 3;\ntcgen05.commit.cta_group::2.mbarrier::arrive::one"
                   ".shared::cluster.multicast::cluster.b64 [%r5], %rs1;\n";
    for (std::size_t column = 0; column < columns; column += 32) {
      loads += fmt::format("tcgen05.ld.sync.aligned.32x32b.x32.b32 {}, [%r6+{}];\n",
                           list(column, 32), column);
    }
  }

  /// With so many columns, all of which it gives back.
  void allocate(std::size_t count) {
    allocation = fmt::format(
        "tcgen05.alloc.cta_group::{0}.sync.aligned.shared::cta.b32 [slot], {1};\n"
        "tcgen05.relinquish_alloc_permit.cta_group::{0}.sync.aligned;\n",
        blocks, count);
    deallocation =
        fmt::format("tcgen05.dealloc.cta_group::{}.sync.aligned.b32 %r3, {};\n", blocks, count);
  }

  /// "{%d4, %d5}"
  static std::string list(std::size_t first, std::size_t count) {
    std::string text;
    for (std::size_t i = first; i < first + count; ++i) {
      text += fmt::format("{}%d{}", i > first ? ", " : "", i);
    }
    return "{" + text + "}";
  }

  [[nodiscard]] std::string text() const {
    std::string stores;
    for (std::size_t i = 0; i < columns; ++i) {
      stores += fmt::format("  st.global.b32 [%rd3+{}], %d{};\n", 4 * i, i);
    }
    return beginning(kImageBytes, allocation) +
           fmt::format(
               R"({after_allocation}
{sync}
  ld.shared.u32 %r3, [slot];
  shl.b32 %r6, %r4, 21;
  add.u32 %r6, %r6, %r3;
  and.b32 %r12, %r2, 262143;
  shr.u32 %r12, %r12, 4;
  cvt.u64.u32 %rd6, %r12;
  mov.u64 %rd7, {descriptor};
  add.s64 %rd10, %rd6, %rd7;
  add.s64 %rd11, %rd10, {b};
  or.b32 %r13, %r1, %r7;
  setp.eq.u32 %p1, %r13, 0;
  setp.eq.u32 %p6, %r1, %r1;
  setp.ne.u32 %p7, %r1, %r1;
  @!%p1 bra NO_PRODUCT;
{products}
{commit}
NO_PRODUCT:
{wait}
{fence_after}
{loads}
{wait_load}
{fence_before}
{more}
{stores}
{last_sync}
  @%p5 bra END;
{deallocation}
END:
  ret;
}}
)",
               fmt::arg("after_allocation", after_allocation), fmt::arg("sync", sync),
               fmt::arg("descriptor", kDescriptor), fmt::arg("b", kB >> 4U),
               fmt::arg("products", products), fmt::arg("commit", commit), fmt::arg("wait", wait),
               fmt::arg("fence_after", fence_after), fmt::arg("loads", loads),
               fmt::arg("wait_load", wait_load), fmt::arg("fence_before", fence_before),
               fmt::arg("more", more), fmt::arg("stores", stores), fmt::arg("last_sync", last_sync),
               fmt::arg("deallocation", deallocation));
  }

  /// K-major, with the swizzle of 128 bytes.
  static constexpr std::uint64_t kDescriptor =
      1ULL << 16U | 64ULL << 32U | 1ULL << 46U | 2ULL << 61U;
};

/// The kind and its instruction descriptor, with results of 32 bits.
struct Kind {
  std::string_view name = "f8f6f4";
  std::uint32_t a = 0;  // its codes in the descriptor
  std::uint32_t b = 0;
  std::uint32_t result = 1;
  std::size_t element_bytes = 1;

  [[nodiscard]] std::uint32_t descriptor(std::size_t rows, std::size_t columns) const {
    return result << 4U | a << 7U | b << 10U | static_cast<std::uint32_t>(columns / 8) << 17U |
           static_cast<std::uint32_t>(rows / 16) << 24U;
  }
};
constexpr Kind kE4M3 = {};
constexpr Kind kBF16 = {.name = "f16", .a = 1, .b = 1, .element_bytes = 2};
constexpr Kind kS8 = {.name = "i8", .a = 1, .b = 1, .result = 2};

/// Products of `steps` times 32 bytes along K into the columns from `column` on; the first one
/// writes, the others add.
inline std::string products(const Kind& kind, std::size_t blocks, std::size_t rows,
                            std::size_t columns, std::size_t steps = 4, std::size_t column = 0) {
  std::string text = fmt::format("mov.u32 %r20, {};\n", kind.descriptor(rows, columns));
  for (std::size_t step = 0; step < steps; ++step) {
    text += fmt::format(
        "add.s64 %rd20, %rd10, {0};\nadd.s64 %rd21, %rd11, {0};\n"
        "tcgen05.mma.cta_group::{1}.kind::{2} [%r3+{3}], %rd20, %rd21, %r20, {4};\n",
        2 * step, blocks, kind.name, column, step == 0 ? "%p7" : "%p6");
  }
  return text;
}

class KernelTest : public DeviceTest {
 protected:
  /// Numbers from -2 to 2 where the kernels find A and B, in each block's memory: 128 rows or more
  /// of 128 bytes.
  void put(const Kind& kind, std::size_t blocks) {
    std::mt19937 random(7);
    memory_.assign(blocks * kBlockBytes, std::byte{0});
    values_.assign(blocks * kRowsOfImage * 128, 0);
    for (std::size_t row = 0; row < blocks * kRowsOfImage; ++row) {
      for (std::size_t i = 0; i < 128 / kind.element_bytes; ++i) {
        const int value = static_cast<int>(random() % 5) - 2;
        values_[row * 128 + i] = value;
        put_element(kind, row, i, value);
      }
    }
    address_ = device_.allocate(memory_.size());
    device_.write(address_, memory_);
  }

  Report run(const std::string& ptx, std::size_t blocks, const RunOptions& options = {}) {
    device_.write(address_, memory_);
    const KernelHandle loaded = device_.load(ptx).front();
    const auto parameter = std::bit_cast<std::array<std::byte, 8>>(address_);
    const auto size = static_cast<std::uint32_t>(blocks);
    return device_.launch(
        loaded, {.grid = {size, 1, 1}, .block = {kThreads, 1, 1}, .cluster = {size, 1, 1}},
        parameter, options);
  }

  /// What a block's threads have stored: 512 words each.
  std::vector<std::uint32_t> results(std::size_t block) {
    std::vector<std::uint32_t> words(kResultBytes / 4);
    device_.read(std::as_writable_bytes(std::span(words)),
                 address_ + block * kBlockBytes + kImageBytes);
    return words;
  }

  /// Row `row` of A with column `column` of B, both of the pair's; `columns` are all of B's.
  [[nodiscard]] int product_of(std::size_t blocks, std::size_t rows, std::size_t columns,
                               std::size_t row, std::size_t column, std::size_t depth) const {
    const std::size_t of_a = rows / blocks;
    const std::size_t of_b = columns / blocks;
    const std::size_t a = row / of_a * kRowsOfImage + row % of_a;
    const std::size_t b = column / of_b * kRowsOfImage + kB / 128 + column % of_b;
    int sum = 0;
    for (std::size_t i = 0; i < depth; ++i) {
      sum += values_[a * 128 + i] * values_[b * 128 + i];
    }
    return sum;
  }

  std::set<FindingKind> kinds_of(const Kernel& kernel, unsigned seeds = 8) {
    const std::string ptx = kernel.text();
    return kinds_over(seeds, [&](std::uint64_t seed) {
      options_.seed = seed;
      return run(ptx, kernel.blocks, options_);
    });
  }

  static constexpr std::size_t kRowsOfImage = kImageBytes / 128;

  std::uint64_t address_ = 0;
  std::vector<std::byte> memory_{};
  std::vector<int> values_{};
  RunOptions options_;  // of kinds_of, but for the seed

 private:
  // Rows of 128 bytes, units of 16 of which are swizzled.
  void put_element(const Kind& kind, std::size_t row, std::size_t i, int value) {
    const std::size_t byte = i * kind.element_bytes;
    const std::size_t within = row % kRowsOfImage;
    const std::size_t at = row / kRowsOfImage * kBlockBytes + within * 128 +
                           ((byte / 16) ^ (within % 8)) * 16 + byte % 16;
    constexpr std::array<std::uint8_t, 5> kE4M3Bits = {0xC0, 0xB8, 0x00, 0x38, 0x40};
    constexpr std::array<std::uint16_t, 5> kBF16Bits = {0xC000, 0xBF80, 0, 0x3F80, 0x4000};
    const auto number = static_cast<std::size_t>(value + 2);
    if (kind.element_bytes == 2) {
      std::memcpy(&memory_[at], &kBF16Bits.at(number), 2);
    } else {
      memory_[at] = kind.name == "i8" ? static_cast<std::byte>(value)
                                      : static_cast<std::byte>(kE4M3Bits.at(number));
    }
  }
};

}  // namespace emu::tcgen05
