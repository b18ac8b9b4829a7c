// A warp: registers of 32 lanes, and its splits while lanes have diverged.
#include "emulator/machine/warp.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/machine/cluster.hpp"
#include "emulator/machine/finding_log.hpp"
#include "emulator/machine/special_registers.hpp"
#include "emulator/program/source_text.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

// What ends an operation that all lanes must execute, where some that were let go on may still
// come.
struct LanesApart {};

}  // namespace

EarlierAccess earlier_access(const races::RunRaces& run, const races::Access& access) {
  const races::RunRaces::Record& record = run.record_of(access);
  const auto& grid = *static_cast<const Grid*>(record.grid);
  const Program& program = *grid.program;
  const Op& op = program.ops[races::operation_number(access)];
  const std::uint32_t warp = races::warp_of(access) - 1;
  return {.kernel = source_name(program.function->name),
          .instruction = op.instruction->opcode,
          .line = op.instruction->line,
          .source = source_text(program, *op.instruction),
          .block = record.blocks[warp / record.warps],
          .warp = static_cast<int>(warp % record.warps)};
}

void Warp::begin_interval() {
  release_interval();
  intervals_.first = released_;
  writing_lanes = 0;
  notify_races([](auto& races, auto actor) { races.sync_lanes(actor, false); });
}

void Warp::release_interval() {
  constexpr races::Interval kMaxInterval = (1U << races::kIntervalBits) - 1;
  if ((intervals_.now & kMaxInterval) == kMaxInterval) {
    throw Error("a warp has too many barriers and arrivals for the race detector");
  }
  released_ = ++intervals_.now;
}

void Warp::acquire_interval() {
  intervals_.first = std::max(intervals_.first, released_);
  notify_races([](auto& races, auto actor) { races.sync_lanes(actor, true); });
}

const Grid& Warp::grid() const {
  return block_.grid();
}

Warp::Warp(Block& block, int index, Lanes lanes)
    : registers(block.grid().registers),
      block_(block),
      index_(index),
      races_(block.cluster().races()),
      actor_(races_ == nullptr ? 0 : races_->warp(block.rank(), static_cast<unsigned>(index))),
      live_(lanes),
      register_file_(block.grid().program->register_file_words),
      local_(block.grid().program->local_bytes),
      executing_(block.grid().program->functions.size()) {
  cluster_arrivals.fill(-1);
  intervals_.now = static_cast<races::Interval>(index) << races::kIntervalBits;
  begin_interval();
  splits_.push_back(Split{.lanes = lanes});
  const Program& program = *block.grid().program;
  for (const Constant& constant : program.constants) {
    const std::uint64_t value =
        constant.value + (constant.is_shared_address ? block.shared_base() : 0);
    if (constant.bits == 1) {
      write_predicate(constant.slot, value != 0 ? kAllLanes : 0, kAllLanes, kAllLanes);
    } else if (constant.bits == 8) {
      fill(constant.slot, static_cast<std::uint8_t>(value), kAllLanes);
    } else if (constant.bits == 16) {
      fill(constant.slot, static_cast<std::uint16_t>(value), kAllLanes);
    } else if (constant.bits == 32) {
      fill(constant.slot, static_cast<std::uint32_t>(value), kAllLanes);
    } else {
      fill(constant.slot, value, kAllLanes);
    }
  }
  for (const SpecialRegister& special : program.specials) {
    fill_special(special);
  }
}

void Warp::fill_special(const SpecialRegister& special) {
  Vec<std::uint64_t> values;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    values.lanes[lane] =
        special_value(block_, static_cast<std::uint32_t>(index_), lane, special.name);
  }
  if (special.bits == 1) {
    write_predicate(special.slot, values.lanes[0] != 0 ? kAllLanes : 0, kAllLanes, kAllLanes);
    return;
  }
  const auto bytes = static_cast<std::size_t>(special.bits) / 8;
  for (int lane = 0; lane < kLanes; ++lane) {  // the low bits, where the register is smaller
    std::memcpy(register_bytes(special.slot, bytes, lane), &values.lanes[lane], bytes);
  }
  set_valid(special.slot, kAllLanes);
}

int Warp::run(std::size_t split, int limit) {
  return block_.grid().tracer == nullptr ? run_split<false>(split, limit)
                                         : run_split<true>(split, limit);
}

// A template, so that untraced runs have no overhead.
template <bool kIsTraced>
int Warp::run_split(std::size_t split, int limit) {
  const auto trace = [&](TraceKind kind, const Op& op, Lanes lanes, bool condition) {
    if constexpr (kIsTraced) {
      if (condition) {
        block_.grid().tracer->record(kind, *this, op, lanes);
      }
    }
  };
  current_ = split;
  run_fragment();
  const std::vector<Op>& ops = block_.grid().program->ops;
  int done = 0;
  while (done < limit) {
    Split& active_split = splits_[current_];
    const Op& op = ops[static_cast<std::size_t>(active_split.operation)];
    Lanes lanes = active_split.lanes;
    if (op.guard != kNoSlot) {
      require_valid(op.guard, op, lanes, "the predicate");
      lanes &= read_predicate(op.guard, op.is_guard_negated);
    }
    ++done;
    trace(TraceKind::kRun, op, lanes, !active_split.is_blocked);
    if (!op.async_registers.empty() && !op.is_async_product && lanes != 0) {
      check_async_registers(op, lanes);
    }
    if (tensor_loads != 0 && lanes != 0 && waits_for_pending_load(op, lanes)) {
      trace(TraceKind::kWait, op, lanes, !active_split.is_blocked);
      active_split.is_blocked = true;
      return done - 1;
    }
    if (op.flow == Flow::kNext) {
      Outcome outcome = Outcome::kDone;
      if (lanes != 0) {
        try {
          outcome = op.code(*this, op, lanes);
        } catch (const LanesApart&) {
          if (gather_released_lanes()) {
            --done;
            continue;
          }
          outcome = wait_for(WaitFor::kLanes, live_);
        }
      }
      if (outcome == Outcome::kBlocked) {
        trace(TraceKind::kWait, op, lanes, !active_split.is_blocked);
        active_split.is_blocked = true;
        return done - 1;
      }
      trace(TraceKind::kGoOn, op, lanes, active_split.is_blocked);
      active_split.is_blocked = false;
      ++active_split.operation;
    } else if (op.flow == Flow::kBranch) {
      branch(op, lanes);
      run_fragment();
    } else if (op.flow == Flow::kExit) {
      exit_lanes(op, lanes);
    } else {
      transfer(op, lanes);
    }
    if (!can_run(current_)) {
      return done;
    }
    join_if_reconverged();
    if (!can_run(current_)) {
      return done;
    }
  }
  return done;
}

void Warp::check_async_registers(const Op& op, Lanes lanes) {
  products.uses.resize(block_.grid().program->async_registers);
  for (const AsyncRegister& access : op.async_registers) {
    RegisterUse& use = products.uses[access.number];
    const bool is_conflict = use.is_accumulator || (access.is_written && !access.is_constant);
    if (products.is_in_flight(use) && is_conflict) {
      report(use.is_accumulator ? FindingKind::kUninitialized : FindingKind::kRegisterRace, op,
             lanes,
             fmt::format("it accesses a register of {} (line {}) without a wgmma.wait_group: {}",
                         use.op->instruction->opcode, use.op->instruction->line,
                         use.is_accumulator ? "the accumulator is not complete"
                                            : "A may still be read from it"));
    }
    if (access.is_written) {
      use.fences_before_write = products.fences + 1;
      use.writer = &op;
      use.is_constant = access.is_constant;
    } else {
      use.fences_before_read = products.fences + 1;
      use.reader = &op;
    }
  }
}

bool Warp::waits_for_pending_load(const Op& op, Lanes lanes) {
  for (const auto& move : tensor_moves) {
    const auto is_result = [&](Slot slot) {
      return slot != kNoSlot && std::ranges::count(move->op->list, slot) != 0;
    };
    if (!move->is_load || move->is_delivered ||
        !(std::ranges::any_of(op.slots, is_result) || std::ranges::any_of(op.list, is_result))) {
      continue;
    }
    if (block_.grid().checks_tensor_waits) {
      report(FindingKind::kUninitialized, op, lanes,
             fmt::format("it accesses a register of {} (line {}) without a tcgen05.wait::ld",
                         move->op->instruction->opcode, move->op->instruction->line));
    } else if (!move->is_done) {
      wait_for(WaitFor::kTensorMoves);
      return true;
    } else {
      deliver(*move);
    }
  }
  return false;
}

void Warp::deliver(TensorMove& load) {
  for (std::size_t r = 0; r < load.values.size(); ++r) {
    write(load.op->list[r], load.values[r], kAllLanes, load.valid[r]);
  }
  load.is_delivered = true;
}

void Warp::branch(const Op& op, Lanes taken) {
  Split& active_split = splits_[current_];
  const Lanes remaining = active_split.lanes & ~taken;
  if (remaining == 0) {
    active_split.operation = op.target;
    return;
  }
  ++active_split.operation;
  if (taken != 0) {
    diverge(op, std::array{Way{active_split.operation, remaining}, Way{op.target, taken}});
  }
}

// If the lanes reconverge before the split joins its parent, the split waits there for all parts.
void Warp::diverge(const Op& op, std::span<const Way> ways) {
  const std::size_t active = current_;
  const bool waits = op.join >= 0 && op.join != splits_[active].join;
  Split part{.parent = splits_[active].parent,
             .join = splits_[active].join,
             .fragment = splits_[active].fragment,
             .frame = splits_[active].frame};
  std::array<std::size_t, kLanes + 1> parts{};
  std::size_t count = 0;
  if (waits) {
    Split& parent = splits_[active];
    parent.operation = op.join;
    parent.lanes = 0;
    parent.awaited_splits = static_cast<std::int32_t>(ways.size());
    part.parent = static_cast<std::int32_t>(active);
    part.join = op.join;
  }
  const races::Fragments::Id whole = part.fragment;
  for (const Way& way : ways) {
    part.operation = way.operation;
    part.lanes = way.lanes;
    part.fragment = create_fragment(whole);
    if (count == 0 && !waits) {
      splits_[active] = part;
      parts.at(count++) = active;
      continue;
    }
    if (!waits && part.parent >= 0) {
      ++splits_[static_cast<std::size_t>(part.parent)].awaited_splits;
    }
    parts.at(count++) = add_split(part);
  }
  for (std::size_t i = waits ? 0 : 1; i < count; ++i) {
    current_ = parts.at(i);
    join_if_reconverged();  // a way may begin at the point of reconvergence
  }
  current_ = active;
}

std::size_t Warp::add_split(Split split) {
  if (splits_.size() >= searched_splits_) {
    const auto ended = std::ranges::find_if(
        splits_, [&](const Split& other) { return other.lanes == 0 && other.awaited_splits == 0; });
    if (ended != splits_.end()) {
      *ended = std::move(split);
      return static_cast<std::size_t>(ended - splits_.begin());
    }
    searched_splits_ = 2 * splits_.size();
  }
  splits_.push_back(std::move(split));
  return splits_.size() - 1;
}

void Warp::join_if_reconverged() {
  Split& active_split = splits_[current_];
  if (active_split.lanes == 0 || active_split.parent < 0 ||
      active_split.operation != active_split.join || active_split.awaited_splits > 0) {
    return;
  }
  const std::int32_t parent = active_split.parent;
  join_fragment(active_split);
  splits_[static_cast<std::size_t>(parent)].lanes |= active_split.lanes;
  active_split.lanes = 0;
  release_parent(parent);
}

void Warp::release_parent(std::int32_t parent) {
  while (parent >= 0) {
    Split& ancestor = splits_[static_cast<std::size_t>(parent)];
    if (--ancestor.awaited_splits > 0) {
      break;
    }
    if (ancestor.lanes != 0) {
      if (ancestor.operation != ancestor.join) {
        break;
      }
      // The split has waited for a call just before the point of reconvergence.
      splits_[static_cast<std::size_t>(ancestor.parent)].lanes |= ancestor.lanes;
      ancestor.lanes = 0;
    }
    join_fragment(ancestor);
    parent = ancestor.parent;
  }
  // Frees splits that have ended.
  while (splits_.size() > 1 && splits_.back().lanes == 0 && splits_.back().awaited_splits == 0) {
    splits_.pop_back();
  }
}

void Warp::exit_lanes(const Op& op, Lanes lanes) {
  if (released_lanes_ != 0) {
    check_released_exit(op, lanes);
  }
  Split& active_split = splits_[current_];
  live_ &= ~lanes;
  active_split.lanes &= ~lanes;
  ++active_split.operation;
  if (active_split.lanes == 0) {
    join_fragment(active_split);
    release_parent(active_split.parent);
  }
  block_.release_barriers();
  if (is_done()) {
    block_.end_warp();
  }
}

// Records in the race detector that lanes diverge.
races::Fragments::Id Warp::create_fragment(races::Fragments::Id whole) {
  return races_ == nullptr ? whole : races_->create_fragment(actor_, whole);
}

void Warp::join_fragment(const Split& split) {
  if (races() != nullptr && split.parent >= 0) {
    races()->join_fragment(actor(), split.fragment,
                           splits_[static_cast<std::size_t>(split.parent)].fragment);
  }
}

void Warp::run_fragment() {
  if (races() != nullptr) {
    races()->run_fragment(actor(), splits_[current_].fragment);
  }
}

Finding Warp::describe(FindingKind kind, const Op& op, Lanes lanes, std::string message,
                       std::optional<EarlierAccess> other, std::uint64_t global) const {
  const Program& program = *block_.grid().program;
  return {.kind = kind,
          .message = std::move(message),
          .kernel = source_name(program.function->name),
          .instruction = op.instruction->opcode,
          .line = op.instruction->line,
          .source = source_text(program, *op.instruction),
          .block = block_.index(),
          .warp = index_,
          .lanes = lanes,
          .global = global,
          .other = std::move(other)};
}

void Warp::stop(FindingKind kind, const Op& op, Lanes lanes, std::string message,
                std::optional<EarlierAccess> other, std::uint64_t global) const {
  throw Stop{describe(kind, op, lanes, std::move(message), std::move(other), global)};
}

void Warp::report(FindingKind kind, const Op& op, Lanes lanes, std::string message,
                  std::optional<EarlierAccess> other, std::uint64_t global,
                  std::string place) const {
  Finding finding = describe(kind, op, lanes, std::move(message), std::move(other), global);
  finding.place = std::move(place);
  block_.grid().findings->add(std::move(finding));
}

void Warp::report_uninitialized(const Op& op, Lanes lanes, std::string_view what) const {
  report(FindingKind::kUninitialized, op, lanes, fmt::format("{} was never written", what));
}

void Warp::require_all_lanes(const Op& op, Lanes lanes) const {
  if (lanes != live_) {
    if (released_lanes_ != 0) {
      throw LanesApart{};
    }
    stop(FindingKind::kDivergent, op, lanes,
         fmt::format("all lanes must execute it together, but only {:#010x} of {:#010x} do", lanes,
                     live_));
  }
}

}  // namespace emu
