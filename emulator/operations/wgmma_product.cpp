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

// Calls use(register, lane, shift, index) for each sum, the last two being its first bit in the
// register and its index in D.
template <typename Use>
void for_each_sum(const WgmmaForm& form, Use&& use) {
  for (std::size_t r = 0; r < form.accumulators(); ++r) {
    for (std::size_t part = 0; part < form.parts(); ++part) {
      const std::uint16_t* const index = &form.sums->index[(r * form.parts() + part) * kLanes];
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        use(r, lane, 16 * part, index[lane]);
      }
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
  std::vector<std::uint32_t> d(kRowsPerWarp * form.columns);
  const std::span<const Slot> registers = std::span(op().list).first(form.accumulators());
  if (adds_) {
    std::vector<Vec<std::uint32_t>> words;
    for (const Slot slot : registers) {
      words.push_back(warp().read<std::uint32_t>(slot));
    }
    const std::uint32_t mask = form.parts() == 2 ? 0xFFFFU : ~0U;
    for_each_sum(form, [&](std::size_t r, std::size_t lane, std::size_t shift, std::size_t index) {
      d[index] = words[r].lanes[lane] >> shift & mask;
    });
  }
  multiply_add(b, a, d,
               {.precision = wgmma_precision(form.a),
                .accumulator = form.accumulator,
                .is_saturating = form.is_saturating});
  std::vector<Vec<std::uint32_t>> words(registers.size());
  for_each_sum(form, [&](std::size_t r, std::size_t lane, std::size_t shift, std::size_t index) {
    words[r].lanes[lane] |= d[index] << shift;
  });
  for (std::size_t r = 0; r < registers.size(); ++r) {
    warp().write(registers[r], words[r], kAllLanes, 0);  // initialised by the wait
  }
  warp().products.last_finished = number_;
  return true;
}

bool WgmmaProduct::needs(const Block& block) const {
  return &block == &warp().block();
}

}  // namespace emu
