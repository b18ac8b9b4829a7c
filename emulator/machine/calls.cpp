// Calls of functions, returns from them, and branches to one of many targets.
//
// A split that calls waits behind the call, as it waits at a point of reconvergence, for a split of
// the called lanes, which join it when they return. Lanes that call through different addresses
// become a split each. The registers of a function are the same in each call: lanes that execute it
// already save what they have there.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/syntax/limits.hpp"

namespace emu {
namespace {

// Words of a register in the register file: its header and its values.
std::uint32_t saved_words(int bits) {
  return kHeaderWords + register_words(bits);
}

// Calls use(slot, bits) for each register whose value a call has to save.
template <typename Use>
void for_each_saved(const FunctionCode& function, Use&& use) {
  for (const SavedRegister& reg : function.registers) {
    use(reg.slot, reg.bits);
  }
  for (const FrameAddress& address : function.addresses) {
    use(address.slot, address.bits);
  }
}

std::size_t base_of(const CallFrame* frame, int lane) {
  return frame == nullptr ? 0 : frame->base.at(static_cast<std::size_t>(lane));
}

}  // namespace

void Warp::transfer(const Op& op, Lanes lanes) {
  if (lanes == 0) {
    ++splits_[current_].operation;
  } else if (op.flow == Flow::kCall) {
    call(op, lanes);
  } else if (op.flow == Flow::kReturn) {
    return_lanes(lanes);
  } else {
    branch_indirectly(op, lanes);
  }
  if (can_run(current_)) {
    run_fragment();
  }
}

void Warp::branch_indirectly(const Op& op, Lanes lanes) {
  require_valid(op.slots[0], op, lanes, "the index");
  const std::vector<std::int32_t>& targets =
      block_.grid().program->branch_targets[static_cast<std::size_t>(op.target)];
  std::vector<Way> ways;
  const auto add = [&](std::int32_t operation, Lanes added) {
    const auto way = std::ranges::find(ways, operation, &Way::operation);
    if (way != ways.end()) {
      way->lanes |= added;
    } else {
      ways.push_back({operation, added});
    }
  };
  for_each_lane(lanes, [&](int lane) {
    const auto index = read_lane<std::uint32_t>(op.slots[0], lane);
    if (index >= targets.size()) {
      stop(FindingKind::kIllegalOperand, op, lane_bit(lane),
           fmt::format("the index {} is beyond the {} targets", index, targets.size()));
    }
    add(targets[index], lane_bit(lane));
  });
  Split& active_split = splits_[current_];
  if (const Lanes remaining = active_split.lanes & ~lanes; remaining != 0) {
    add(active_split.operation + 1, remaining);
  }
  if (ways.size() == 1) {
    active_split.operation = ways.front().operation;
  } else {
    diverge(op, ways);
  }
}

std::int32_t Warp::called_function(const Op& op, const Call& call, Lanes lanes, Lanes& same) const {
  same = lanes;
  if (call.function >= 0) {
    return call.function;
  }
  const Program& program = *block_.grid().program;
  const auto addresses = read<std::uint64_t>(call.target);
  const std::uint64_t address = addresses.lanes[std::countr_zero(lanes)];
  for_each_lane(lanes, [&](int lane) {
    same &= addresses.lanes[lane] == address ? kAllLanes : ~lane_bit(lane);
  });
  const auto number = program.function_addresses.find(address);
  if (number == program.function_addresses.end()) {
    stop(FindingKind::kIllegalOperand, op, same,
         fmt::format("no function has the address {:#x}", address));
  }
  const FunctionCode& function = program.functions[static_cast<std::size_t>(number->second)];
  const auto has_sizes = [](const std::vector<PassedValue>& a, const std::vector<PassedValue>& b) {
    return std::ranges::equal(a, b, {}, &PassedValue::bytes, &PassedValue::bytes);
  };
  if (!has_sizes(call.arguments, function.parameters) ||
      !has_sizes(call.results, function.results)) {
    stop(FindingKind::kIllegalOperand, op, same,
         fmt::format("the function at {:#x}, {}, has parameters or results of other sizes", address,
                     function.function->name));
  }
  return number->second;
}

void Warp::call(const Op& op, Lanes lanes) {
  const Program& program = *block_.grid().program;
  const Call& call = program.calls[static_cast<std::size_t>(op.target)];
  if (call.function < 0) {
    require_valid(call.target, op, lanes, "the address of the function");
  }
  const std::size_t caller = current_;
  ++splits_[caller].operation;
  splits_[caller].lanes &= ~lanes;
  const races::Fragments::Id whole = splits_[caller].fragment;
  const Lanes all = lanes;
  while (lanes != 0) {
    Lanes same = 0;
    const std::int32_t number = called_function(op, call, lanes, same);
    lanes &= ~same;
    ++splits_[caller].awaited_splits;
    current_ =
        add_split({.operation = program.functions[static_cast<std::size_t>(number)].entry,
                   .lanes = same,
                   .parent = static_cast<std::int32_t>(caller),
                   .fragment = same == all ? whole : create_fragment(whole),
                   .frame = push_frame(op, call, number, splits_[caller].frame.get(), same)});
  }
}

std::shared_ptr<const CallFrame> Warp::push_frame(const Op& op, const Call& call,
                                                  std::int32_t number, const CallFrame* caller,
                                                  Lanes lanes) {
  const FunctionCode& function = block_.grid().program->functions[static_cast<std::size_t>(number)];
  auto frame = std::make_shared<CallFrame>();
  frame->call = &call;
  frame->function = number;
  frame->caller = caller;
  grow_stack(op, function, *frame, lanes);
  Lanes& executing = executing_[static_cast<std::size_t>(number)];
  frame->saved_lanes = executing & lanes;
  executing |= lanes;
  if (frame->saved_lanes != 0) {
    for_each_saved(function, [&](Slot slot, int bits) {
      const std::uint32_t* const first = &register_file_[slot - kHeaderWords];
      frame->saved.insert(frame->saved.end(), first, first + saved_words(bits));
      frame->saved_partial_values.replace(partial_values, slot, frame->saved_lanes);
    });
  }
  // The caller may be the same function: its arguments are read before its registers are prepared.
  std::vector<PassedBytes> arguments;
  for (const PassedValue& argument : call.arguments) {
    arguments.push_back(read_passed(argument, frame->caller, lanes));
  }
  for_each_saved(function, [&](Slot slot, int /*bits*/) {
    set_valid(slot, valid(slot) & ~lanes);
    partial_values.erase(slot, slot + 1, lanes);
  });
  for (const FrameAddress& address : function.addresses) {
    Vec<std::uint64_t> values{};
    for_each_lane(
        lanes, [&](int lane) { values.lanes[lane] = base_of(frame.get(), lane) + address.offset; });
    if (address.bits == 64) {
      write(address.slot, values, lanes, lanes);
    } else {
      Vec<std::uint32_t> narrow{};
      std::ranges::copy(values.lanes, narrow.lanes);
      write(address.slot, narrow, lanes, lanes);
    }
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    write_passed(function.parameters[i], frame.get(), arguments[i], lanes);
  }
  return frame;
}

namespace {

// Stack of a call: memory of its frame, and as much as a GPU would save of registers.
std::size_t stack_bytes(const FunctionCode& function) {
  return std::max<std::size_t>(function.frame_bytes + function.register_bytes, 1);
}

}  // namespace

std::size_t Warp::least_stack_top(int lane) {
  const Program& program = *block_.grid().program;
  const CallFrame* const frame = current().frame.get();
  return frame == nullptr
             ? program.local_bytes
             : base_of(frame, lane) +
                   stack_bytes(program.functions[static_cast<std::size_t>(frame->function)]);
}

void Warp::grow_stack(const Op& op, const FunctionCode& function, CallFrame& frame, Lanes lanes) {
  const std::size_t alignment = std::max<std::size_t>(function.frame_alignment, 16);
  for_each_lane(lanes, [&](int lane) {
    const auto i = static_cast<std::size_t>(lane);
    frame.previous_top.at(i) = local_.top(lane);
    frame.base.at(i) = syntax::align_up(local_.top(lane), alignment);
    const std::size_t top = frame.base.at(i) + stack_bytes(function);
    if (top > syntax::kMaxLocalBytes) {
      stop(FindingKind::kOutOfBounds, op, lane_bit(lane),
           fmt::format("the stack overflows: with the call of {} the thread needs {} bytes of "
                       "local memory, and has {}",
                       function.function->name, top, syntax::kMaxLocalBytes));
    }
    set_stack_top(lane, top);
  });
}

void Warp::return_lanes(Lanes lanes) {
  const std::shared_ptr<const CallFrame> frame = splits_[current_].frame;
  const FunctionCode& function =
      block_.grid().program->functions[static_cast<std::size_t>(frame->function)];
  std::vector<PassedBytes> results;
  for (const PassedValue& result : function.results) {
    results.push_back(read_passed(result, frame.get(), lanes));
  }
  restore_registers(function, *frame, lanes & frame->saved_lanes);
  executing_[static_cast<std::size_t>(frame->function)] &= ~(lanes & ~frame->saved_lanes);
  for_each_lane(lanes, [&](int lane) {
    set_stack_top(lane, frame->previous_top.at(static_cast<std::size_t>(lane)));
  });
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (frame->call->results[i].bytes != 0) {
      write_passed(frame->call->results[i], frame->caller, results[i], lanes);
    }
  }
  Split& active_split = splits_[current_];
  const std::int32_t parent = active_split.parent;
  splits_[static_cast<std::size_t>(parent)].lanes |= lanes;
  active_split.lanes &= ~lanes;
  ++active_split.operation;
  if (active_split.lanes == 0) {
    join_fragment(active_split);
    active_split.frame.reset();
    release_parent(parent);
    if (can_run(static_cast<std::size_t>(parent))) {
      current_ = static_cast<std::size_t>(parent);
    }
  }
}

void Warp::restore_registers(const FunctionCode& function, const CallFrame& frame, Lanes lanes) {
  if (lanes == 0) {
    return;
  }
  const std::uint32_t* saved = frame.saved.data();
  for_each_saved(function, [&](Slot slot, int bits) {
    set_valid(slot, (valid(slot) & ~lanes) | (*saved & lanes));
    partial_values.replace(frame.saved_partial_values, slot, lanes);
    const std::uint32_t* const values = saved + kHeaderWords;
    if (bits == 1) {
      register_file_[slot] = (register_file_[slot] & ~lanes) | (*values & lanes);
    } else {
      const auto bytes = static_cast<std::size_t>(bits) / 8;
      for_each_lane(lanes, [&](int lane) {
        std::memcpy(
            register_bytes(slot, bytes, lane),
            reinterpret_cast<const std::byte*>(values) + bytes * static_cast<std::size_t>(lane),
            bytes);
      });
    }
    saved += saved_words(bits);
  });
}

std::byte* Warp::register_bytes(Slot slot, std::size_t bytes, int lane) {
  return reinterpret_cast<std::byte*>(&register_file_[slot]) +
         bytes * static_cast<std::size_t>(lane);
}

// A register has values of up to 8 bytes; of longer ones it is not kept which bits were written.
Warp::PassedBytes Warp::read_passed(const PassedValue& value, const CallFrame* frame, Lanes lanes) {
  PassedBytes passed{.bytes = std::vector<std::byte>(kLanes * value.bytes),
                     .written_bits = std::vector<std::uint8_t>(kLanes * value.bytes)};
  for_each_lane(lanes, [&](int lane) {
    const std::size_t first = value.bytes * static_cast<std::size_t>(lane);
    std::byte* const bytes = passed.bytes.data() + first;
    std::uint8_t* const written = passed.written_bits.data() + first;
    if (value.slot != kNoSlot) {
      std::memcpy(bytes, register_bytes(value.slot, value.bytes, lane), value.bytes);
      if ((valid(value.slot) & lane_bit(lane)) != 0) {
        std::fill_n(written, value.bytes, kAllBits);
      } else if (value.bytes <= sizeof(std::uint64_t)) {
        std::uint64_t whole = 0;
        std::memcpy(&whole, bytes, value.bytes);
        const std::uint64_t bits = partial_values.written_bits(value.slot, lane, whole);
        std::memcpy(written, &bits, value.bytes);
      }
      return;
    }
    const std::uint64_t address = base_of(frame, lane) + value.offset;
    std::memcpy(bytes, local_.byte(lane, address), value.bytes);
    const std::uint8_t* const is_written = local_.written(lane, address);
    for (std::size_t i = 0; i < value.bytes; ++i) {
      written[i] = is_written[i] != 0
                       ? kAllBits
                       : static_cast<std::uint8_t>(partial_bytes.written_bits(
                             address + i, lane, static_cast<std::uint64_t>(bytes[i])));
    }
  });
  return passed;
}

void Warp::write_passed(const PassedValue& value, const CallFrame* frame, const PassedBytes& passed,
                        Lanes lanes) {
  for_each_lane(lanes, [&](int lane) {
    const std::size_t first = value.bytes * static_cast<std::size_t>(lane);
    const std::byte* const bytes = passed.bytes.data() + first;
    const std::uint8_t* const written = passed.written_bits.data() + first;
    if (value.slot != kNoSlot) {
      std::memcpy(register_bytes(value.slot, value.bytes, lane), bytes, value.bytes);
      const bool is_valid = std::all_of(written, written + value.bytes,
                                        [](std::uint8_t bits) { return bits == kAllBits; });
      set_valid(value.slot,
                (valid(value.slot) & ~lane_bit(lane)) | (is_valid ? lane_bit(lane) : 0));
      if (!is_valid && value.bytes <= sizeof(std::uint64_t)) {
        std::uint64_t whole = 0;
        std::uint64_t bits = 0;
        std::memcpy(&whole, bytes, value.bytes);
        std::memcpy(&bits, written, value.bytes);
        partial_values.keep(value.slot, lane, whole, bits);
      }
      return;
    }
    const std::uint64_t address = base_of(frame, lane) + value.offset;
    std::memcpy(local_.byte(lane, address), bytes, value.bytes);
    std::uint8_t* const is_written = local_.written(lane, address);
    for (std::size_t i = 0; i < value.bytes; ++i) {
      is_written[i] = written[i] == kAllBits ? 1 : 0;
      if (is_written[i] == 0) {
        partial_bytes.keep(address + i, lane, static_cast<std::uint64_t>(bytes[i]), written[i]);
      }
    }
  });
}

Warp::Argument Warp::read_argument(const PassedValue& argument, int lane) {
  const PassedBytes passed = read_passed(argument, current().frame.get(), lane_bit(lane));
  const std::size_t first = argument.bytes * static_cast<std::size_t>(lane);
  Argument read{.is_valid = true};
  const std::size_t bytes = std::min(argument.bytes, sizeof(read.value));
  std::memcpy(&read.value, passed.bytes.data() + first, bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    read.is_valid = read.is_valid && passed.written_bits[first + i] == kAllBits;
  }
  return read;
}

void Warp::write_result(const PassedValue& result, int lane, std::uint64_t value) {
  PassedBytes passed{.bytes = std::vector<std::byte>(kLanes * result.bytes),
                     .written_bits = std::vector<std::uint8_t>(kLanes * result.bytes, kAllBits)};
  std::memcpy(passed.bytes.data() + result.bytes * static_cast<std::size_t>(lane), &value,
              std::min(result.bytes, sizeof(value)));
  write_passed(result, current().frame.get(), passed, lane_bit(lane));
}

}  // namespace emu
