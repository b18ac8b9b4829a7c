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
  const ElementAddresses addresses(MatrixDescriptor::from_bits(bits), shape);
  for_each_chunk(shape, lines.count, [&](std::size_t line, std::size_t k) {
    const std::uint32_t address = addresses(first + line, k);
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
    if (shape.is_k_major) {
      put_words(lines, line, k * shape.element_bytes / 4, &block.shared[address]);
    } else {
      put_chunk(lines, line, k, false,
                std::span<const std::byte, kChunkBytes>(&block.shared[address], kChunkBytes));
    }
  });
}

// Reads the warp's rows of A from registers.
void read_registers_of_a(const Warp& warp, std::span<const Slot> registers,
                         const Fragment& fragment, Lines& lines) {
  for (std::size_t r = 0; r < registers.size(); ++r) {
    const auto words = warp.read<std::uint32_t>(registers[r]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lines.words[fragment.index[r * kLanes + lane]] = words.lanes[lane];
    }
  }
}

// Sums in a lane's registers, with columns of kRowsPerWarp words that follow each other: of eight
// columns, the lane has rows lane / 4 and 8 + lane / 4 (halves) of columns lane % 4 * 2 and the
// next (parts).
constexpr std::size_t kGroupColumns = 8;
constexpr std::size_t kGroupHalves = 2;
constexpr std::size_t kGroupParts = 2;
using GroupSums = std::array<std::array<Vec<std::uint32_t>, kGroupParts>, kGroupHalves>;

using Quad [[gnu::vector_size(16)]] = std::uint32_t;

// Four quads, of which each becomes the same element of all.
void transpose(std::array<Quad, 4>& quads) {
  const auto& [a, b, c, d] = quads;
  const Quad low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Quad high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad next_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad next_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  quads = {__builtin_shufflevector(low, next_low, 0, 1, 4, 5),
           __builtin_shufflevector(low, next_low, 2, 3, 6, 7),
           __builtin_shufflevector(high, next_high, 0, 1, 4, 5),
           __builtin_shufflevector(high, next_high, 2, 3, 6, 7)};
}

// Calls use(words of four rows' quads, words of four columns' quads) for the sums of a group: the
// former are in the registers, the latter in `columns`.
template <typename Sums, typename Word, typename Use>
void for_each_square(Sums& sums, Word* columns, Use&& use) {
  for (std::size_t half = 0; half < kGroupHalves; ++half) {
    for (std::size_t part = 0; part < kGroupParts; ++part) {
      for (std::size_t row = 0; row < kGroupColumns; row += 4) {
        std::array<Word*, 4> in_columns;
        for (std::size_t i = 0; i < 4; ++i) {
          in_columns[i] =
              columns + (kGroupParts * i + part) * kRowsPerWarp + half * kRowsPerWarp / 2 + row;
        }
        use(&sums[half][part].lanes[4 * row], in_columns);
      }
    }
  }
}

void put_columns(const GroupSums& sums, std::uint32_t* columns) {
  for_each_square(sums, columns, [](const std::uint32_t* rows, const auto& in_columns) {
    std::array<Quad, 4> quads;
    std::memcpy(&quads, rows, sizeof(quads));
    transpose(quads);
    for (std::size_t i = 0; i < 4; ++i) {
      std::memcpy(in_columns[i], &quads[i], sizeof(Quad));
    }
  });
}

void put_sums(GroupSums& sums, const std::uint32_t* columns) {
  for_each_square(sums, columns, [](std::uint32_t* rows, const auto& in_columns) {
    std::array<Quad, 4> quads;
    for (std::size_t i = 0; i < 4; ++i) {
      std::memcpy(&quads[i], in_columns[i], sizeof(Quad));
    }
    transpose(quads);
    std::memcpy(rows, &quads, sizeof(quads));
  });
}

// Reads the accumulators of eight columns.
void read_sums(const Warp& warp, std::span<const Slot> registers, std::uint32_t* columns) {
  GroupSums sums;
  const bool is_packed = registers.size() == kGroupHalves;
  for (std::size_t half = 0; half < kGroupHalves; ++half) {
    for (std::size_t part = 0; part < kGroupParts; ++part) {
      Vec<std::uint32_t>& words = sums[half][part];
      words = warp.read<std::uint32_t>(registers[is_packed ? half : kGroupParts * half + part]);
      for (std::size_t lane = 0; is_packed && lane < kLanes; ++lane) {
        words.lanes[lane] = words.lanes[lane] >> (16 * part) & 0xFFFFU;
      }
    }
  }
  put_columns(sums, columns);
}

// Writes the accumulators of eight columns.
void write_sums(Warp& warp, std::span<const Slot> registers, const std::uint32_t* columns) {
  GroupSums sums;
  put_sums(sums, columns);
  for (std::size_t half = 0; half < kGroupHalves; ++half) {
    if (registers.size() == kGroupHalves) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums[half][0].lanes[lane] |= sums[half][1].lanes[lane] << 16U;
      }
      warp.write(registers[half], sums[half][0], kAllLanes, 0);  // initialised by the wait
      continue;
    }
    for (std::size_t part = 0; part < kGroupParts; ++part) {
      warp.write(registers[kGroupParts * half + part], sums[half][part], kAllLanes, 0);
    }
  }
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
  Lines a{
      .element = form.a, .count = kRowsPerWarp, .depth = depth, .is_negated = form.is_a_negated};
  a.resize(kRowsPerWarp);
  Lines b{
      .element = form.b, .count = form.columns, .depth = depth, .is_negated = form.is_b_negated};
  b.resize(form.columns);
  if (form.is_a_in_registers) {
    read_registers_of_a(warp(), std::span(op().list).subspan(form.accumulators()),
                        *form.a_registers, a);
  } else {
    const std::size_t first =
        static_cast<std::size_t>(warp().index()) % kWarpsPerWarpgroup * kRowsPerWarp;
    read_shared(*this, "A", descriptors_[0], form.shape_of_a(), first, a);
  }
  read_shared(*this, "B", descriptors_[1], form.shape_of_b(), 0, b);
  std::array<std::uint32_t, kRowsPerWarp * kMaxColumns> sums;  // columns, of the warp's rows
  const std::span<std::uint32_t> d = std::span(sums).first(kRowsPerWarp * form.columns);
  const std::span<const Slot> registers = std::span(op().list).first(form.accumulators());
  const std::size_t group_registers = kGroupHalves * kGroupParts / form.parts();
  const auto registers_of = [&](std::size_t group) {
    return registers.subspan(group * group_registers, group_registers);
  };
  const std::size_t groups = form.columns / kGroupColumns;
  if (!adds_) {
    std::ranges::fill(d, 0U);
  }
  for (std::size_t group = 0; adds_ && group < groups; ++group) {
    read_sums(warp(), registers_of(group), &d[group * kGroupColumns * kRowsPerWarp]);
  }
  multiply_add(b, a, d,
               {.precision = wgmma_precision(form.a),
                .accumulator = form.accumulator,
                .is_saturating = form.is_saturating});
  for (std::size_t group = 0; group < groups; ++group) {
    write_sums(warp(), registers_of(group), &d[group * kGroupColumns * kRowsPerWarp]);
  }
  warp().products.last_finished = number_;
  return true;
}

bool WgmmaProduct::needs(const Block& block) const {
  return &block == &warp().block();
}

}  // namespace emu
