// Shadow of a block's tensor memory: each cell's last write and the reads since.
#include "emulator/races/tensor_shadow.hpp"

#include <algorithm>

namespace emu::races {
namespace {

// Whether tensor cores execute the two operations in the order of issue. Products do so if they
// have the same accumulator and shape. No documentation says that later copies and products wait
// until earlier products have read their operands; CUTLASS and DeepGEMM, which overwrite the scale
// factors of the last step with those of the next, and all attention kernels that keep P where the
// next S goes, rely on it.
bool are_in_order(std::uint64_t earlier, std::uint64_t later, bool is_earlier_read) {
  return earlier != 0 && later != 0 &&
         (earlier == later || earlier == kCopyForm || later == kCopyForm || is_earlier_read);
}

std::optional<ConflictKind> find_conflict(const TensorView& view, const Access& earlier,
                                          std::uint64_t form, bool is_earlier_read = false) {
  const Actor actor = actor_of(earlier.party);
  if (earlier.party == kNoParty || earlier.epoch <= view.ended->at(actor)) {
    return std::nullopt;
  }
  if (view.issued != nullptr && are_in_order(form, view.form, is_earlier_read) &&
      earlier.epoch <= view.issued->at(actor)) {
    return std::nullopt;
  }
  const bool has_ended = std::ranges::any_of(view.unfenced, [&](const Clock* clock) {
    return clock != nullptr && earlier.epoch <= clock->at(actor);
  });
  if (has_ended && !view.needs_fences) {
    return std::nullopt;
  }
  return has_ended ? ConflictKind::kNoTensorFence : ConflictKind::kUnordered;
}

}  // namespace

template <typename Use>
std::optional<Conflict> TensorShadow::for_each_cell(const TensorRange& range, Use&& use) {
  if (cells_.empty()) {
    cells_.resize(kTensorLanes / kLanes * kTensorColumns);
  }
  std::optional<Conflict> conflict;
  const std::size_t end = range.column + range.columns;
  for (std::size_t row = range.lane / kLanes; row * kLanes < range.lane + range.lanes; ++row) {
    for (std::size_t place = range.column; place < end; ++place) {
      Cell& cell = cells_[row * kTensorColumns + place];
      if (std::optional<Conflict> conflict_here = use(cell);
          conflict_here.has_value() && !conflict.has_value()) {
        conflict_here->offset = tensor_address(row * kLanes, place);
        conflict = conflict_here;
      }
    }
  }
  return conflict;
}

std::optional<Conflict> TensorShadow::read(const TensorView& view, const TensorRange& range) {
  return for_each_cell(range, [&](Cell& cell) -> std::optional<Conflict> {
    const auto earlier_read = std::ranges::find_if(
        cell.reads, [&](const Mark& mark) { return mark.access.party == view.access.party; });
    Mark& mark = earlier_read != cell.reads.end() ? *earlier_read : cell.reads.emplace_back();
    mark = {.access = view.access, .form = view.form};
    if (const auto kind = find_conflict(view, cell.write.access, cell.write.form)) {
      return Conflict{.kind = *kind, .other = cell.write.access, .is_other_write = true};
    }
    return std::nullopt;
  });
}

std::optional<Conflict> TensorShadow::cell_conflict(const TensorView& view, const Cell& cell) {
  if (const auto kind = find_conflict(view, cell.write.access, cell.write.form)) {
    return Conflict{.kind = *kind, .other = cell.write.access, .is_other_write = true};
  }
  for (const Mark& read : cell.reads) {
    if (const auto kind = find_conflict(view, read.access, read.form, true)) {
      return Conflict{.kind = *kind, .other = read.access};
    }
  }
  return std::nullopt;
}

std::optional<Conflict> TensorShadow::write(const TensorView& view, const TensorRange& range) {
  return for_each_cell(range, [&](Cell& cell) {
    const std::optional<Conflict> conflict = cell_conflict(view, cell);
    cell.write = {.access = view.access, .form = view.form};
    cell.reads.clear();
    return conflict;
  });
}

std::optional<Conflict> TensorShadow::find(const TensorView& view, std::size_t column,
                                           std::size_t columns) {
  return for_each_cell({.lanes = kTensorLanes, .column = column, .columns = columns},
                       [&](const Cell& cell) { return cell_conflict(view, cell); });
}

void TensorShadow::clear(std::size_t column, std::size_t columns) {
  for (std::size_t row = 0; row * kTensorColumns < cells_.size(); ++row) {
    std::fill_n(cells_.begin() + static_cast<std::ptrdiff_t>(row * kTensorColumns + column),
                columns, Cell{});
  }
}

}  // namespace emu::races
