// Bulk copies of the TMA between global and shared memory.
#include "emulator/operations/bulk_copy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "emulator/machine/block.hpp"
#include "emulator/machine/cluster.hpp"
#include "emulator/operations/mbarrier.hpp"

namespace emu {
namespace {

constexpr std::byte kPoison{0xCB};

// Removes a random element and returns it.
std::size_t take_random(std::vector<std::size_t>& remaining, std::mt19937_64& random) {
  std::swap(remaining[random() % remaining.size()], remaining.back());
  const std::size_t index = remaining.back();
  remaining.pop_back();
  return index;
}

std::vector<std::size_t> indices_below(std::size_t end) {
  std::vector<std::size_t> indices(end);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

// Combines elements with those in memory.
void reduce(const BulkCopy& copy, const std::byte* from, std::byte* to, std::size_t bytes,
            bool is_global) {
  const ComputeAtomic code = is_global ? copy.reduction.global : copy.reduction.shared;
  const std::size_t element = copy.reduction.element_bits / 8U;
  for (std::size_t i = 0; i < bytes; i += element) {
    std::uint64_t old = 0;
    std::uint64_t operand = 0;
    std::memcpy(&old, to + i, element);
    std::memcpy(&operand, from + i, element);
    const std::uint64_t value = code(old, operand, 0);
    std::memcpy(to + i, &value, element);
  }
}

// Rounds elements of binary32 to the nearest number with 10 bits of fraction, to the even one of
// two; all NaN become one. An H200 does so, subnormal numbers included.
void round_to_tf32(std::span<std::byte> bytes) {
  constexpr std::uint32_t kDropped = (1U << 13U) - 1;
  constexpr std::uint32_t kInfinity = 0x7F80'0000;
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint32_t)) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + i, sizeof(value));
    const bool is_nan = (value & ~(1U << 31U)) > kInfinity;
    const std::uint32_t rounded = value + kDropped / 2 + (value >> 13U & 1U);
    value = is_nan ? 0x7FFF'E000 : rounded & ~kDropped;
    std::memcpy(bytes.data() + i, &value, sizeof(value));
  }
}

}  // namespace

Memory resolve_global(const BulkCopy& copy, const CopyPiece& piece) {
  if (copy.source != nullptr) {
    return {copy.source->shared.data() + piece.global,
            copy.source->is_shared_written.data() + piece.global, copy.source};
  }
  return resolve_unaligned(copy.warp, copy.op, copy.lane, MemorySpace::kGlobal, piece.global,
                           piece.last - piece.first);
}

BulkLoad::BulkLoad(BulkCopy copy, std::span<const BulkTarget> targets, std::uint32_t mbarrier)
    : AsyncWork(copy.warp, copy.op, lane_bit(copy.lane)),
      copy_(std::move(copy)),
      mbarrier_(mbarrier),
      remaining_(indices_below(copy_.pieces.size() * targets.size())) {
  std::deque<Block>& blocks = copy_.warp.block().cluster().blocks();
  for (const auto& [rank, mbarrier_rank] : targets) {
    Block& block = blocks[rank];
    targets_.push_back({.block = block,
                        .counter = blocks[mbarrier_rank],
                        .remaining = copy_.pieces.size(),
                        .written = std::vector<std::uint8_t>(copy_.pieces.size() * kMaxPiece)});
    for (const CopyPiece& piece : copy_.pieces) {
      if (copy_.reduces()) {
        break;
      }
      for_each_unit(copy_, piece, [&](std::uint32_t offset, std::uint32_t /*from*/) {
        std::fill_n(block.shared.data() + offset, kBoxUnit, kPoison);
        std::fill_n(block.is_shared_written.data() + offset, kBoxUnit, std::uint8_t{0});
      });
    }
  }
}

bool BulkLoad::step(std::mt19937_64& random) {
  for (std::size_t count = 1 + random() % (copy_.pieces.size() + 1);
       count > 0 && !remaining_.empty(); --count) {
    const std::size_t index = take_random(remaining_, random);
    write_piece(targets_[index % targets_.size()], index / targets_.size());
  }
  for (Target& target : targets_) {
    if (target.remaining == 0 || (random() & 1U) != 0) {
      count(target);
    }
  }
  return remaining_.empty();
}

bool BulkLoad::needs(const Block& block) const {
  return (&block == copy_.source && !remaining_.empty()) ||
         std::ranges::any_of(targets_, [&](const Target& target) {
           return (&target.block == &block && target.remaining > 0) ||
                  (&target.counter == &block && (target.remaining > 0 || target.uncounted > 0));
         });
}

void BulkLoad::write_piece(Target& target, std::size_t number) {
  const CopyPiece& piece = copy_.pieces[number];
  std::array<std::byte, kMaxPiece> bytes{};
  std::uint8_t* const written = target.written.data() + number * kMaxPiece;
  std::fill_n(written, piece.bytes, std::uint8_t{1});
  if (piece.last - piece.first < piece.bytes && copy_.map.fill != TensorMapFill::kZero) {
    for (std::uint32_t i = 0; i < piece.bytes; ++i) {
      bytes.at(i) = fill_byte(copy_.map, i);
    }
  }
  if (piece.first < piece.last) {
    const Memory from = resolve_global(copy_, piece);
    std::copy_n(from.bytes, piece.last - piece.first, bytes.data() + piece.first);
    std::transform(from.written, from.written + (piece.last - piece.first), written + piece.first,
                   [](std::uint8_t flag) { return static_cast<std::uint8_t>(flag == 1 ? 1 : 0); });
  }
  if (is_rounded(copy_.map.type)) {
    round_to_tf32(std::span(bytes).first(piece.bytes));
  }
  for_each_unit(copy_, piece, [&](std::uint32_t offset, std::uint32_t from) {
    if (copy_.reduces()) {
      reduce(copy_, bytes.data() + from, target.block.shared.data() + offset, kBoxUnit, false);
      return;
    }
    std::copy_n(bytes.data() + from, kBoxUnit, target.block.shared.data() + offset);
  });
  target.uncounted += piece.bytes;
  if (--target.remaining == 0) {
    finish(target);
  }
}

// Marks the destination as written, so that it may be read once the mbarrier's phase completes.
void BulkLoad::finish(const Target& target) {
  for (std::size_t number = 0; number < copy_.pieces.size(); ++number) {
    const std::uint8_t* const written = target.written.data() + number * kMaxPiece;
    for_each_unit(copy_, copy_.pieces[number], [&](std::uint32_t offset, std::uint32_t from) {
      std::uint8_t* const flags = target.block.is_shared_written.data() + offset;
      for (std::uint32_t i = 0; i < kBoxUnit; ++i) {
        flags[i] = copy_.reduces() ? flags[i] & written[from + i] : written[from + i];
      }
    });
  }
}

void BulkLoad::count(Target& target) {
  if (const std::uint32_t bytes = std::exchange(target.uncounted, 0); bytes > 0) {
    Mbarrier& mbarrier =
        find_mbarrier(copy_.warp, copy_.op, copy_.lane, MemorySpace::kClusterShared,
                      target.counter.shared_base() + mbarrier_);
    mbarrier.counter = {&copy_.warp, &copy_.op, lanes()};
    copy_.warp.require(mbarrier.complete_copy(bytes), FindingKind::kBarrierMisuse, copy_.op,
                       lanes());
  }
}

BulkStore::BulkStore(BulkCopy copy, std::shared_ptr<BulkProgress> progress)
    : AsyncWork(copy.warp, copy.op, lane_bit(copy.lane)),
      copy_(std::move(copy)),
      progress_(std::move(progress)),
      bytes_(copy_.pieces.size() * kMaxPiece),
      written_(copy_.pieces.size() * kMaxPiece),
      unread_(indices_below(copy_.pieces.size())) {
  for (const CopyPiece& piece : copy_.pieces) {
    if (piece.first < piece.last && !copy_.reduces()) {
      const Memory to = resolve_global(copy_, piece);
      std::fill_n(to.bytes, piece.last - piece.first, kPoison);
      to.set_written(0, piece.last - piece.first, false);
    }
  }
}

// Reads or writes one piece per step, so that other warps can run between the read of a piece and
// its write.
bool BulkStore::step(std::mt19937_64& random) {
  const bool reads = !unread_.empty() && (unwritten_.empty() || (random() & 1U) != 0);
  std::vector<std::size_t>& remaining = reads ? unread_ : unwritten_;
  for (std::size_t count = 1 + random() % (copy_.pieces.size() + 1);
       count > 0 && !remaining.empty(); --count) {
    const std::size_t number = take_random(remaining, random);
    if (reads) {
      read(number);
      unwritten_.push_back(number);
    } else {
      write(number);
    }
  }
  progress_->is_read = unread_.empty();
  progress_->is_done = unread_.empty() && unwritten_.empty();
  return progress_->is_done;
}

bool BulkStore::needs(const Block& block) const {
  return &block == &copy_.warp.block() && !unread_.empty() && copy_.warp.grid().checks_last_stores;
}

void BulkStore::read(std::size_t number) {
  const Block& block = copy_.warp.block();
  for_each_unit(copy_, copy_.pieces[number], [&](std::uint32_t offset, std::uint32_t to) {
    std::copy_n(block.shared.data() + offset, kBoxUnit, bytes_.data() + number * kMaxPiece + to);
    std::transform(block.is_shared_written.data() + offset,
                   block.is_shared_written.data() + offset + kBoxUnit,
                   written_.data() + number * kMaxPiece + to,
                   [](std::uint8_t flag) { return static_cast<std::uint8_t>(flag == 1 ? 1 : 0); });
  });
}

void BulkStore::write(std::size_t number) {
  const CopyPiece& piece = copy_.pieces[number];
  if (piece.first == piece.last) {
    return;  // the piece lies outside of the tensor
  }
  const Memory to = resolve_global(copy_, piece);
  const std::size_t first = number * kMaxPiece + piece.first;
  if (copy_.reduces()) {
    reduce(copy_, bytes_.data() + first, to.bytes, piece.last - piece.first, true);
    std::transform(to.written, to.written + (piece.last - piece.first), written_.data() + first,
                   to.written, std::bit_and<>{});
  } else {
    std::copy_n(bytes_.data() + first, piece.last - piece.first, to.bytes);
    std::copy_n(written_.data() + first, piece.last - piece.first, to.written);
  }
  const auto* const missing =
      std::find(to.written, to.written + (piece.last - piece.first), std::uint8_t{0});
  const auto offset = static_cast<std::uint32_t>(missing - to.written);
  if (offset < piece.last - piece.first) {
    report_uninitialized_store(copy_.warp, copy_.op, lanes(), piece.global + offset);
  }
}

}  // namespace emu
