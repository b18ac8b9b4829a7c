// Kernels that copy boxes of tensors, and the device that runs them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "tensor_reference.hpp"

namespace emu {

inline constexpr std::string_view kShared =
    ".shared .align 8 .b8 bar[16]; .extern .shared .align 1024 .b8 tile[];";
// Where `tile` is, and where in memory results are, behind the map.
inline constexpr std::uint32_t kTile = 2048;
inline constexpr std::uint64_t kResults = 256;
inline constexpr std::byte kNotWritten{0xCB};

// The tile's address in %r2, an mbarrier's for one thread in %r3; %p1 holds but for thread 0.
inline constexpr std::string_view kBegin = R"(
  mov.u32 %r2, tile;
  mov.u32 %r3, bar;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;)";

inline constexpr std::string_view kWait = R"(
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;)";

// Copies the tile's first bytes to the results, or the other way round.
inline std::string move_tile(std::uint32_t bytes, bool is_out) {
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

inline std::string listed(const TensorCase& made) {
  return fmt::format("{{{}}}", fmt::join(std::span(made.coordinates).first(made.desc.rank), ", "));
}

// Thread 0 expects the bytes and starts the load.
inline std::string load_text(std::uint64_t bytes, std::string_view copy) {
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

  // Runs whose copies are late on purpose, to see what that does to values.
  static RunOptions values_of(std::uint64_t seed, Policy policy = Policy::kFromSeed) {
    return {.seed = seed, .policy = policy, .check_races = false, .check_swizzle_starts = false};
  }

  // The kinds of findings over seeds, with a map that `change` has changed in memory.
  std::set<FindingKind> findings_of(
      const std::string& body, Policy policy = Policy::kFromSeed, std::uint32_t blocks = 1,
      const std::function<void(std::array<std::byte, kTensorMapBytes>&)>& change = {}) {
    return kinds_over(10, [&](std::uint64_t seed) {
      auto map = encode(desc_);
      if (change) {
        change(map);
      }
      LaunchConfig config = one_warp(2048);
      config.grid[0] = config.cluster[0] = blocks;
      return run(kernel(body, kShared), put_map(map, 8192), config, values_of(seed, policy));
    });
  }

  std::vector<std::byte> matrix_;
  TensorMapDesc desc_;
};

using FindingKinds = std::set<FindingKind>;

}  // namespace emu
