// A warp's part of one wgmma.mma_async: its form, and the asynchronous work that computes it.
#include "emulator/operations/wgmma_product.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/operations/tensor_product.hpp"
#include "emulator/program/place_name.hpp"

namespace emu {
namespace {

const Warp& first_warp_of_group(Warp& warp) {
  return warp.block()
      .warps()[static_cast<std::size_t>(warp.index()) / kWarpsPerWarpgroup * kWarpsPerWarpgroup];
}

// Reads lines of an operand in shared memory, beginning at line `first`.
void read_shared(const WgmmaProduct& product, std::string_view name, std::uint64_t bits,
                 const MatrixShape& shape, std::size_t first, Lines& lines) {
  constexpr std::array<std::uint8_t, kChunkBytes> kWritten = {1, 1, 1, 1, 1, 1, 1, 1,
                                                              1, 1, 1, 1, 1, 1, 1, 1};
  const Block& block = product.warp().block();
  const MatrixDescriptor descriptor = MatrixDescriptor::from_bits(bits);
  for_each_chunk(shape, lines.count, [&](std::size_t line, std::size_t k) {
    const std::uint32_t address = address_of(descriptor, shape, first + line, k);
    const auto message = [&](std::string_view what) {
      return fmt::format("{}'s 16 bytes at {:#x} (line {}, k {}) {}", name, address, first + line,
                         k, what);
    };
    if (address < kReservedSharedBytes || address + kChunkBytes > block.shared.size()) {
      product.warp().stop(FindingKind::kOutOfBounds, product.op(), product.lanes(),
                          message("are outside of the block's shared memory"));
    }
    if (std::memcmp(&block.is_shared_written[address], kWritten.data(), kChunkBytes) != 0) {
      product.warp().report(FindingKind::kUninitialized, product.op(), product.lanes(),
                            message("were not all written"), std::nullopt, 0,
                            shared_place_name(*product.warp().grid().program, "", address));
    }
    put_chunk(lines, line, k, shape.is_k_major,
              std::span<const std::byte, kChunkBytes>(&block.shared[address], kChunkBytes));
  });
}

// Reads A from registers. Register r of a lane holds 4 bytes of row lane / 4 + 8 * (r % 2), at byte
// 4 * (lane % 4) + 16 * (r / 2) along K.
void read_registers_of_a(const Warp& warp, const Op& op, std::size_t first, Lines& lines) {
  const std::size_t bytes = bytes_of(lines.element);
  for (std::size_t r = 0; r < kRegistersForA; ++r) {
    const auto words = warp.read<std::uint32_t>(op.list[first + r]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t row = lane / 4 + 8 * (r % 2);
      const std::size_t k = (4 * (lane % 4) + 16 * (r / 2)) / bytes;
      for (std::size_t i = 0; i < 4 / bytes; ++i) {
        const std::uint32_t bits = words.lanes[lane] >> (8 * bytes * i);
        lines.bits[row * lines.depth + k + i] =
            static_cast<std::uint16_t>(bits & (bytes == 2 ? 0xFFFFU : 0xFFU));
      }
    }
  }
}

// Index of an accumulator in a warp's rows of D.
constexpr std::size_t index_in_d(std::size_t r, std::size_t lane, std::size_t columns) {
  return (lane / 4 + 8 * (r / 2 % 2)) * columns + 8 * (r / 4) + 2 * (lane % 4) + r % 2;
}

}  // namespace

bool WgmmaProduct::can_step() const {
  return warp().products.last_finished + 1 == number_ &&
         std::ranges::all_of(first_warp_of_group(warp()).products.warpgroup.next,
                             [&](std::uint64_t next) { return next > place_; });
}

bool WgmmaProduct::step(std::mt19937_64& /*random*/) {
  const WgmmaForm& form = op().get<WgmmaForm>();
  const std::size_t depth = form.depth();
  Lines a{.element = form.a,
          .count = kRowsPerWarp,
          .depth = depth,
          .is_negated = form.is_a_negated,
          .bits = std::vector<std::uint16_t>(kRowsPerWarp * depth)};
  Lines b{.element = form.b,
          .count = form.columns,
          .depth = depth,
          .is_negated = form.is_b_negated,
          .bits = std::vector<std::uint16_t>(form.columns * depth)};
  if (form.is_a_in_registers) {
    read_registers_of_a(warp(), op(), form.accumulators(), a);
  } else {
    const std::size_t first =
        static_cast<std::size_t>(warp().index()) % kWarpsPerWarpgroup * kRowsPerWarp;
    read_shared(*this, "A", descriptors_[0], form.shape_of_a(), first, a);
  }
  read_shared(*this, "B", descriptors_[1], form.shape_of_b(), 0, b);
  std::vector<std::uint32_t> d(kRowsPerWarp * form.columns);
  for (std::size_t r = 0; adds_ && r < form.accumulators(); ++r) {
    const auto words = warp().read<std::uint32_t>(op().list[r]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      d[index_in_d(r, lane, form.columns)] = words.lanes[lane];
    }
  }
  multiply_add(a, b, d, {.precision = wgmma_precision(form.a)});
  for (std::size_t r = 0; r < form.accumulators(); ++r) {
    Vec<std::uint32_t> words;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      words.lanes[lane] = d[index_in_d(r, lane, form.columns)];
    }
    warp().write(op().list[r], words, kAllLanes, 0);  // initialised by the wait
  }
  warp().products.last_finished = number_;
  return true;
}

bool WgmmaProduct::needs(const Block& block) const {
  return &block == &warp().block();
}

}  // namespace emu
