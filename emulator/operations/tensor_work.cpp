// Asynchronous work of tensor cores on tensor memory.
#include "emulator/operations/tensor_work.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/machine/block.hpp"
#include "emulator/machine/cluster.hpp"
#include "emulator/operations/mbarrier.hpp"
#include "emulator/operations/tensor_accesses.hpp"
#include "emulator/program/place_name.hpp"

namespace emu {

TensorWork::TensorWork(Warp& warp, const Op& op, int lane, std::size_t blocks)
    : AsyncWork(warp, op, lane_bit(lane)),
      blocks_(blocks),
      queue_(tensor_queue(warp, blocks_)),
      number_(++queue_.issued_count) {}

Block& TensorWork::block(std::size_t number) const {
  return tensor_block(warp(), blocks_, number);
}

bool TensorWork::needs(const Block& block) const {
  for (std::size_t i = 0; i < blocks_; ++i) {
    if (&this->block(i) == &block) {
      return true;
    }
  }
  return false;
}

void TensorWork::require_written(const SharedRange& range, std::string_view name) const {
  const auto& written = block(range.block).is_shared_written;
  const auto begin = written.begin() + static_cast<std::ptrdiff_t>(range.first);
  const auto end = begin + static_cast<std::ptrdiff_t>(range.bytes);
  const auto missing = std::find_if(begin, end, [](std::uint8_t flag) { return flag != 1; });
  if (missing != end) {
    warp().report(FindingKind::kUninitialized, op(), lanes(),
                  fmt::format("{} at {:#x} of block ({})'s shared memory was not written", name,
                              range.first + static_cast<std::uint32_t>(missing - begin),
                              fmt::join(block(range.block).index(), ",")),
                  std::nullopt, 0,
                  shared_place_name(*warp().grid().program, "",
                                    range.first + static_cast<std::uint64_t>(missing - begin)));
  }
}

void TensorWork::require_written(const TensorRange& range, std::string_view name) const {
  Block& owner = block(range.block);
  require_allocated(warp(), op(), lanes(), owner, range);
  if (!owner.tensor.is_written(range)) {
    warp().report(
        FindingKind::kUninitialized, op(), lanes(),
        fmt::format("{} in lanes {} to {}, columns {} to {} of block ({})'s tensor memory "
                    "was not completely written",
                    name, range.lane, range.lane + range.lanes - 1, range.column,
                    range.column + range.columns - 1, fmt::join(owner.index(), ",")));
  }
}

TensorProduct::TensorProduct(Warp& warp, const Op& op, int lane, const UmmaProduct& product,
                             UmmaAccesses accesses)
    : TensorWork(warp, op, lane, product.form.blocks),
      product_(product),
      accesses_(std::move(accesses)) {}

bool TensorProduct::step(std::mt19937_64& /*random*/) {
  const auto require_all = [&](const auto& ranges, std::string_view name) {
    for (const auto& range : ranges) {
      require_written(range, name);
    }
  };
  require_all(accesses_.a, "A");
  require_all(accesses_.b, "B");
  require_all(accesses_.a_words, "A");
  require_all(accesses_.scales, "a scale factor");
  if (product_.adds) {
    require_all(accesses_.d, "D, to which it adds,");
  }
  std::vector<UmmaMemory> memory;
  for (std::size_t i = 0; i < blocks(); ++i) {
    memory.push_back({.shared = block(i).shared, .tensor = block(i).tensor.words()});
  }
  warp().require(multiply(product_, memory), FindingKind::kIllegalOperand, op(), lanes());
  for (const TensorRange& range : accesses_.d) {
    require_allocated(warp(), op(), lanes(), block(range.block), range);
    block(range.block).tensor.set_written(range);
  }
  finish();
  return true;
}

TensorCopy::TensorCopy(Warp& warp, const Op& op, int lane, std::size_t blocks,
                       std::vector<TensorCopyUnit> units)
    : TensorWork(warp, op, lane, blocks), units_(std::move(units)) {}

bool TensorCopy::step(std::mt19937_64& /*random*/) {
  constexpr std::size_t kWords = kChunkBytes / 4;
  for (std::size_t i = 0; i < blocks(); ++i) {
    Block& owner = block(i);
    for (const TensorCopyUnit& unit : units_) {
      require_written(SharedRange{.block = i, .first = unit.shared, .bytes = kChunkBytes},
                      "the matrix to copy");
      const TensorRange to{
          .block = i, .lane = unit.lane, .lanes = 1, .column = unit.column, .columns = kWords};
      require_allocated(warp(), op(), lanes(), owner, to);
      std::memcpy(&owner.tensor.words()[tensor_place(unit.lane, unit.column)],
                  &owner.shared[unit.shared], kChunkBytes);
      owner.tensor.set_written(to);
    }
  }
  finish();
  return true;
}

TensorCommit::TensorCommit(Warp& warp, const Op& op, int lane, std::size_t blocks,
                           std::vector<std::uint64_t> mbarriers, races::Order released,
                           races::Access access)
    : TensorWork(warp, op, lane, blocks),
      lane_(lane),
      mbarriers_(std::move(mbarriers)),
      released_(std::move(released)),
      access_(access) {}

bool TensorCommit::is_own(std::uint64_t mbarrier) const {
  return mbarrier >> kRankShift == warp().block().rank();
}

bool TensorCommit::step(std::mt19937_64& random) {
  const bool is_late = warp().grid().checks_late_commits;
  const auto arrives_in_order = [&](std::uint64_t mbarrier) {
    return !is_late || is_own(mbarrier);
  };
  if (!has_left_queue_ && std::ranges::none_of(mbarriers_, arrives_in_order)) {
    finish();
    has_left_queue_ = true;
    return mbarriers_.empty();
  }
  std::swap(mbarriers_[random() % mbarriers_.size()], mbarriers_.back());
  const std::uint64_t address = mbarriers_.back();
  mbarriers_.pop_back();
  Mbarrier& mbarrier = find_mbarrier(warp(), op(), lane_, MemorySpace::kClusterShared, address);
  mbarrier.sync.sync_point.released.join(released_);
  if (warp().races() != nullptr && is_late && !is_own(address)) {
    mbarrier.remote_commit = {.access = access_, .phase = mbarrier.phase() + 1};
  }
  warp().require(mbarrier.arrive(1), FindingKind::kBarrierMisuse, op(), lanes());
  return has_left_queue_ && mbarriers_.empty();
}

bool TensorCommit::needs(const Block& block) const {
  return std::ranges::any_of(
      mbarriers_, [&](std::uint64_t address) { return address >> kRankShift == block.rank(); });
}

}  // namespace emu
