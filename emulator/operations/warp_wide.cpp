// Warp-wide operations: shfl, vote, match, elect, redux, activemask, bar.warp.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/number_formats.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

// Lanes of a warp that wait at a warp-wide instruction for others that its mask names.
Outcome wait_for_members(Warp& warp, const Op& op, Slot slot, Lanes lanes, const Op* meets_at,
                         const std::function<void(Lanes)>& run) {
  const auto masks = warp.read<Lanes>(slot);
  for (Lanes remaining = lanes & ~warp.met_lanes; remaining != 0;) {
    const Lanes mask = masks.lanes[std::countr_zero(remaining)];
    Lanes group = 0;
    for_each_lane(lanes,
                  [&](int lane) { group |= masks.lanes[lane] == mask ? lane_bit(lane) : 0; });
    remaining &= ~group;
    if ((group & ~mask) != 0) {
      warp.stop(FindingKind::kDivergent, op, group,
                fmt::format("the mask names the live lanes {:#010x}, but lanes {:#010x} execute it",
                            mask & warp.live_lanes(), group));
    }
    auto meeting = std::ranges::find_if(warp.meetings, [&](const LaneMeeting& other) {
      return other.op == meets_at && other.mask == mask;
    });
    const Lanes arrived = group | (meeting == warp.meetings.end() ? 0 : meeting->arrived);
    if ((mask & warp.live_lanes() & ~arrived) == 0) {
      run(arrived & warp.live_lanes());
      warp.met_lanes |= arrived;
      if (meeting != warp.meetings.end()) {
        warp.meetings.erase(meeting);
      }
    } else if (meeting == warp.meetings.end()) {
      warp.meetings.push_back({.op = meets_at, .mask = mask, .arrived = arrived});
    } else {
      meeting->arrived = arrived;
    }
  }
  if ((lanes & ~warp.met_lanes) != 0) {
    return warp.wait_for(WaitFor::kLanes, masks.lanes[std::countr_zero(lanes & ~warp.met_lanes)]);
  }
  warp.met_lanes &= ~lanes;
  return Outcome::kDone;
}

// Calls run(group) for each group of lanes that name the same mask, which the instruction concerns
// together. Lanes wait until all live lanes of their mask have come to the instruction, or with
// `meets_anywhere` to any of its kind.
template <typename Run>
Outcome for_each_group(Warp& warp, const Op& op, Slot slot, Lanes lanes, Run&& run,
                       bool meets_anywhere = false) {
  warp.require_valid(slot, op, lanes, "the mask of lanes");
  const auto masks = warp.read<Lanes>(slot);
  const Lanes mask = masks.lanes[std::countr_zero(lanes)];
  bool is_whole = (mask & warp.live_lanes()) == lanes && warp.met_lanes == 0;
  for_each_lane(lanes, [&](int lane) { is_whole = is_whole && masks.lanes[lane] == mask; });
  if (is_whole) {
    run(lanes);
    return Outcome::kDone;
  }
  return wait_for_members(warp, op, slot, lanes, meets_anywhere ? nullptr : &op, run);
}

enum class Shuffle : std::uint8_t { kIndex, kUp, kDown, kButterfly };

// Slots: the result, the predicate (optional), the value, the distance, clamp and segment mask, the
// mask of lanes.
struct ShuffleMode {
  Shuffle shuffle = Shuffle::kIndex;
};

void shuffle_group(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<std::uint32_t>(op.slots[2]);
  const auto b = warp.read<std::uint32_t>(op.slots[3]);
  const auto c = warp.read<std::uint32_t>(op.slots[4]);
  const Shuffle shuffle = op.get<ShuffleMode>().shuffle;
  Vec<std::uint32_t> d{};
  Lanes lanes_in_range = 0;
  Lanes valid = 0;
  for_each_lane(lanes, [&](int lane) {
    const auto clamp = static_cast<int>(c.lanes[lane] & 0x1FU);
    const auto segment = static_cast<int>(c.lanes[lane] >> 8U & 0x1FU);
    const int distance = static_cast<int>(b.lanes[lane] & 0x1FU);
    const int last = (lane & segment) | (clamp & ~segment);
    const int first_lane = lane & segment;
    int source_lane = 0;
    bool is_in_range = false;
    switch (shuffle) {
      case Shuffle::kIndex:
        source_lane = first_lane | (distance & ~segment);
        is_in_range = source_lane <= last;
        break;
      case Shuffle::kUp:
        source_lane = lane - distance;
        is_in_range = source_lane >= last;
        break;
      case Shuffle::kDown:
        source_lane = lane + distance;
        is_in_range = source_lane <= last;
        break;
      case Shuffle::kButterfly:
        source_lane = lane ^ distance;
        is_in_range = source_lane <= last;
        break;
    }
    source_lane = is_in_range ? source_lane : lane;
    lanes_in_range |= Lanes{is_in_range} << static_cast<unsigned>(lane);
    d.lanes[lane] = a.lanes[source_lane];
    // A lane that does not participate has no value.
    const Lanes source = lane_bit(source_lane);
    if ((source & lanes & warp.valid(op.slots[2])) != 0) {
      valid |= lane_bit(lane);
    }
  });
  valid &= warp.valid(op.slots[3]) & warp.valid(op.slots[4]);
  if (op.slots[0] != kNoSlot) {
    warp.write(op.slots[0], d, lanes, valid);
  }
  if (op.slots[1] != kNoSlot) {
    warp.write_predicate(op.slots[1], lanes_in_range, lanes, kAllLanes);
  }
}

Outcome run_shfl(Warp& warp, const Op& op, Lanes lanes) {
  return for_each_group(warp, op, op.slots[5], lanes,
                        [&](Lanes group) { shuffle_group(warp, op, group); });
}

void decode_shfl(Decoder& decoder) {
  decoder.require("sync");
  decoder.require("b32");
  constexpr std::array<std::string_view, 4> kNames = {"idx", "up", "down", "bfly"};
  const auto shuffle = static_cast<Shuffle>(decoder.take_index_of(kNames));
  decoder.expect_operands(5);
  const syntax::Operand& result = decoder.operand(0);
  const bool has_predicate = result.kind == syntax::OperandKind::kPair;
  const syntax::Operand& value = has_predicate ? result.parts[0] : result;
  decoder.add(value.kind == syntax::OperandKind::kSink ? kNoSlot : decoder.destination(value, 32));
  decoder.add(has_predicate ? decoder.destination(result.parts[1], 1) : kNoSlot);
  for (std::size_t i = 1; i < 5; ++i) {
    decoder.add(decoder.source(i, Type::kB32));
  }
  decoder.op().details.set(ShuffleMode{shuffle});
  decoder.op().code = &run_shfl;
}

enum class Vote : std::uint8_t { kAll, kAny, kUniform, kBallot };

// Slots: the result, the predicate, the mask.
struct VoteMode {
  Vote vote = Vote::kAll;
  bool is_negated = false;  // the predicate is negated
};

void vote_of_group(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_valid(op.slots[1], op, lanes, "the predicate");
  const auto& [vote, is_negated] = op.get<VoteMode>();
  const Lanes votes = warp.read_predicate(op.slots[1], is_negated) & lanes;
  if (vote == Vote::kBallot) {
    warp.fill(op.slots[0], votes, lanes);
    return;
  }
  const bool result = vote == Vote::kAll   ? votes == lanes
                      : vote == Vote::kAny ? votes != 0
                                           : votes == 0 || votes == lanes;
  warp.write_predicate(op.slots[0], result ? kAllLanes : 0, lanes, kAllLanes);
}

Outcome run_vote(Warp& warp, const Op& op, Lanes lanes) {
  return for_each_group(warp, op, op.slots[2], lanes,
                        [&](Lanes group) { vote_of_group(warp, op, group); });
}

void decode_vote(Decoder& decoder) {
  decoder.require("sync");
  constexpr std::array<std::string_view, 4> kNames = {"all", "any", "uni", "ballot"};
  const auto vote = static_cast<Vote>(decoder.take_index_of(kNames));
  decoder.require(vote == Vote::kBallot ? "b32" : "pred");
  decoder.expect_operands(3);
  decoder.add(decoder.destination(0, vote == Vote::kBallot ? 32 : 1));
  const bool is_negated = decoder.add_predicate(1);
  decoder.add(decoder.source(2, Type::kB32));
  decoder.op().details.set(VoteMode{.vote = vote, .is_negated = is_negated});
  decoder.op().code = &run_vote;
}

// Slots: the leader's number (optional), the predicate, the mask. PTX does not specify the leader;
// the emulator elects the lowest lane.
Outcome run_elect(Warp& warp, const Op& op, Lanes lanes) {
  return for_each_group(warp, op, op.slots[2], lanes, [&](Lanes group) {
    const Lanes leader = group & (~group + 1);
    if (op.slots[0] != kNoSlot) {
      warp.fill(op.slots[0], static_cast<std::uint32_t>(std::countr_zero(leader)), group);
    }
    warp.write_predicate(op.slots[1], leader, group, kAllLanes);
  });
}

void decode_elect(Decoder& decoder) {
  decoder.require("sync");
  decoder.expect_operands(2);
  const syntax::Operand& result = decoder.operand(0);
  if (result.kind != syntax::OperandKind::kPair) {
    decoder.fail("expected d|p");
  }
  const bool is_sink = result.parts[0].kind == syntax::OperandKind::kSink;
  decoder.add(is_sink ? kNoSlot : decoder.destination(result.parts[0], 32));
  decoder.add(decoder.destination(result.parts[1], 1));
  decoder.add(decoder.source(1, Type::kB32));
  decoder.op().code = &run_elect;
}

using IntegerMin = decltype([](auto a, auto b) { return std::min(a, b); });
using IntegerMax = decltype([](auto a, auto b) { return std::max(a, b); });
using FloatMin = decltype([](float a, float b) { return lesser_number(a, b); });
using FloatMax = decltype([](float a, float b) { return greater_number(a, b); });

// Slots: the result, the value, the mask.
struct ReductionMode {
  bool takes_magnitudes = false;  // .abs
  bool propagates_nan = false;    // .NaN
};

template <typename T, typename F>
void reduce_group(Warp& warp, const Op& op, Lanes lanes) {
  auto values = warp.read<T>(op.slots[1]);
  const auto& [takes_magnitudes, propagates_nan] = op.get<ReductionMode>();
  const int first = std::countr_zero(lanes);
  [[maybe_unused]] bool has_nan = false;
  if constexpr (std::is_floating_point_v<T>) {
    for (T& value : values.lanes) {
      value = takes_magnitudes ? std::abs(value) : value;
    }
  }
  T result = values.lanes[first];
  for_each_lane(lanes, [&](int lane) {
    if (lane != first) {
      result = F{}(result, values.lanes[lane]);
    }
    if constexpr (std::is_floating_point_v<T>) {
      has_nan = has_nan || std::isnan(values.lanes[lane]);
    }
  });
  if constexpr (std::is_floating_point_v<T>) {
    result = has_nan && propagates_nan ? canonicalize_nan(std::numeric_limits<float>::quiet_NaN())
                                       : canonicalize_nan(result);
  }
  const bool is_valid = (warp.valid(op.slots[1]) & lanes) == lanes;
  warp.fill(op.slots[0], result, lanes, is_valid ? kAllLanes : 0);
}

template <typename T, typename F>
Outcome run_redux(Warp& warp, const Op& op, Lanes lanes) {
  return for_each_group(warp, op, op.slots[2], lanes,
                        [&](Lanes group) { reduce_group<T, F>(warp, op, group); });
}

void decode_redux(Decoder& decoder) {
  Op& op = decoder.op();
  decoder.require("sync");
  const std::string_view operation = decoder.take_one_of({"add", "min", "max", "and", "or", "xor"});
  ReductionMode mode;
  mode.takes_magnitudes = decoder.take("abs");
  mode.propagates_nan = decoder.take("NaN");
  op.details.set(mode);
  const Type type = decoder.take_type();
  decoder.add_operands(32, {type, Type::kB32});
  const bool is_min = operation == "min";
  if (type == Type::kB32 && (operation == "and" || operation == "or" || operation == "xor")) {
    op.code = operation == "and"  ? &run_redux<std::uint32_t, std::bit_and<>>
              : operation == "or" ? &run_redux<std::uint32_t, std::bit_or<>>
                                  : &run_redux<std::uint32_t, std::bit_xor<>>;
  } else if ((type == Type::kU32 || type == Type::kS32) && operation == "add") {
    op.code = &run_redux<std::uint32_t, std::plus<>>;
  } else if ((is_min || operation == "max") && type == Type::kU32) {
    op.code =
        is_min ? &run_redux<std::uint32_t, IntegerMin> : &run_redux<std::uint32_t, IntegerMax>;
  } else if ((is_min || operation == "max") && type == Type::kS32) {
    op.code = is_min ? &run_redux<std::int32_t, IntegerMin> : &run_redux<std::int32_t, IntegerMax>;
  } else if ((is_min || operation == "max") && type == Type::kF32) {
    op.code = is_min ? &run_redux<float, FloatMin> : &run_redux<float, FloatMax>;
  } else {
    decoder.fail("unsupported type");
  }
  if (type != Type::kF32 && (mode.takes_magnitudes || mode.propagates_nan)) {
    decoder.fail("only floats support .abs and .NaN");
  }
}

// Slots: the result, the predicate (match.all; optional), the value, the mask.
template <typename T, bool kIsAll>
Outcome run_match(Warp& warp, const Op& op, Lanes lanes) {
  return for_each_group(warp, op, op.slots[3], lanes, [&](Lanes group) {
    const auto values = warp.read<T>(op.slots[2]);
    Vec<Lanes> matches{};
    for_each_lane(group, [&](int lane) {
      for_each_lane(group, [&](int other) {
        matches.lanes[lane] |= values.lanes[lane] == values.lanes[other] ? lane_bit(other) : 0;
      });
      if (kIsAll && matches.lanes[lane] != group) {
        matches.lanes[lane] = 0;
      }
    });
    const bool is_valid = (warp.valid(op.slots[2]) & group) == group;
    const Lanes valid = is_valid ? kAllLanes : 0;
    if (op.slots[0] != kNoSlot) {
      warp.write(op.slots[0], matches, group, valid);
    }
    if (op.slots[1] != kNoSlot) {
      const bool is_same = matches.lanes[std::countr_zero(group)] == group;
      warp.write_predicate(op.slots[1], is_same ? kAllLanes : 0, group, valid);
    }
  });
}

void decode_match(Decoder& decoder) {
  const bool is_all = decoder.take_one_of({"any", "all"}) == "all";
  decoder.require("sync");
  const Type type = decoder.take_type();
  if (type != Type::kB32 && type != Type::kB64) {
    decoder.fail("unsupported type");
  }
  decoder.expect_operands(3);
  const syntax::Operand& result = decoder.operand(0);
  const bool is_pair = is_all && result.kind == syntax::OperandKind::kPair;
  const syntax::Operand& matches = is_pair ? result.parts[0] : result;
  decoder.add(matches.kind == syntax::OperandKind::kSink ? kNoSlot
                                                         : decoder.destination(matches, 32));
  decoder.add(is_pair ? decoder.destination(result.parts[1], 1) : kNoSlot);
  decoder.add(decoder.source(1, type));
  decoder.add(decoder.source(2, Type::kB32));
  decoder.op().code = type == Type::kB64 ? is_all ? &run_match<std::uint64_t, true>
                                                  : &run_match<std::uint64_t, false>
                      : is_all ? &run_match<std::uint32_t, true>
                                         : &run_match<std::uint32_t, false>;
}

Outcome run_activemask(Warp& warp, const Op& op, Lanes lanes) {
  warp.fill(op.slots[0], lanes, lanes);
  return Outcome::kDone;
}

void decode_activemask(Decoder& decoder) {
  decoder.require("b32");
  decoder.add_operands(32, {});
  decoder.op().code = &run_activemask;
}

// Slots: the mask.
Outcome run_warp_barrier(Warp& warp, const Op& op, Lanes lanes) {
  return for_each_group(
      warp, op, op.slots[0], lanes,
      [&](Lanes group) {
        warp.begin_interval();
        if (group == warp.live_lanes()) {
          warp.notify_races([](auto& races, auto actor) { races.meet_lanes(actor); });
        }
      },
      true);
}

constexpr std::array kOperations = {
    Operation{"shfl", &decode_shfl},   Operation{"vote", &decode_vote},
    Operation{"elect", &decode_elect}, Operation{"redux", &decode_redux},
    Operation{"match", &decode_match}, Operation{"activemask", &decode_activemask},
};

}  // namespace

void decode_warp_barrier(Decoder& decoder) {
  decoder.require("sync");
  decoder.expect_operands(1);
  decoder.add(decoder.source(0, Type::kB32));
  decoder.op().code = &run_warp_barrier;
}

std::span<const Operation> warp_operations() {
  return kOperations;
}

}  // namespace emu
