// Conversions between generic addresses and those of a space, and questions about them: cvta,
// isspacep.
#include <array>
#include <cstdint>
#include <utility>

#include "emulator/machine/block.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/program/address_space.hpp"

namespace emu {
namespace {

struct SpaceConversion {
  std::uint64_t offset = 0;  // added to the address
};

Outcome run_cvta(Warp& warp, const Op& op, Lanes lanes) {
  auto values = warp.read<std::uint64_t>(op.slots[1]);
  for (std::uint64_t& value : values.lanes) {
    value += op.get<SpaceConversion>().offset;
  }
  warp.write(op.slots[0], values, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

// Takes the name of a space, without which cluster or kernel's it is.
std::string_view take_space(Decoder& decoder) {
  if (decoder.take("shared::cta") || decoder.take("shared::cluster")) {
    return "shared";
  }
  if (decoder.take("param::entry")) {
    return "param";
  }
  return decoder.take_one_of({"global", "shared", "local", "param", "const"});
}

void decode_cvta(Decoder& decoder) {
  const bool is_to_space = decoder.take("to");
  const std::string_view space = take_space(decoder);
  decoder.take_one_of({"u64"});
  add_same_type(decoder, Type::kB64, 1);
  const std::uint64_t window = space == "shared"  ? kSharedWindow
                               : space == "local" ? kLocalWindow
                               : space == "param" ? kParameterWindow
                                                  : 0;
  decoder.op().details.set(
      SpaceConversion{.offset = is_to_space ? std::uint64_t{0} - window : window});
  decoder.op().code = &run_cvta;
}

enum class QueriedSpace : std::uint8_t {
  kGlobal,
  kShared,
  kClusterShared,
  kLocal,
  kParameter,
  kConstant
};

struct SpaceQuery {
  QueriedSpace space = QueriedSpace::kGlobal;
};

bool is_in_window(std::uint64_t address, std::uint64_t window) {
  return address >= window && address - window < kWindowBytes;
}

bool is_in_space(Warp& warp, QueriedSpace space, std::uint64_t address) {
  const bool is_shared = is_in_window(address, kSharedWindow);
  switch (space) {
    case QueriedSpace::kShared:
      return is_shared && (address - kSharedWindow) >> kRankShift == warp.block().rank();
    case QueriedSpace::kClusterShared:
      return is_shared;
    case QueriedSpace::kLocal:
      return is_in_window(address, kLocalWindow);
    case QueriedSpace::kParameter:
      return is_in_window(address, kParameterWindow);
    case QueriedSpace::kGlobal:
    case QueriedSpace::kConstant:
      break;
  }
  if (is_shared || is_in_window(address, kLocalWindow) || is_in_window(address, kParameterWindow)) {
    return false;
  }
  const Allocation* const allocation = warp.block().grid().memory.find(address, 1);
  const bool is_constant = allocation != nullptr && allocation->is_constant;
  return is_constant == (space == QueriedSpace::kConstant);
}

// Slots: the predicate, the address.
Outcome run_isspacep(Warp& warp, const Op& op, Lanes lanes) {
  const auto addresses = warp.read<std::uint64_t>(op.slots[1]);
  Lanes result = 0;
  for_each_lane(lanes & warp.valid(op.slots[1]), [&](int lane) {
    if (is_in_space(warp, op.get<SpaceQuery>().space, addresses.lanes[lane])) {
      result |= lane_bit(lane);
    }
  });
  warp.write_predicate(op.slots[0], result, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

void decode_isspacep(Decoder& decoder) {
  constexpr std::array kSpaces = {
      std::pair<std::string_view, QueriedSpace>{"global", QueriedSpace::kGlobal},
      std::pair<std::string_view, QueriedSpace>{"shared", QueriedSpace::kShared},
      std::pair<std::string_view, QueriedSpace>{"shared::cta", QueriedSpace::kShared},
      std::pair<std::string_view, QueriedSpace>{"shared::cluster", QueriedSpace::kClusterShared},
      std::pair<std::string_view, QueriedSpace>{"local", QueriedSpace::kLocal},
      std::pair<std::string_view, QueriedSpace>{"param", QueriedSpace::kParameter},
      std::pair<std::string_view, QueriedSpace>{"param::entry", QueriedSpace::kParameter},
      std::pair<std::string_view, QueriedSpace>{"const", QueriedSpace::kConstant}};
  const auto* const space =
      std::ranges::find_if(kSpaces, [&](const auto& row) { return decoder.take(row.first); });
  if (space == kSpaces.end()) {
    decoder.fail("expected a space");
  }
  decoder.add_operands(1, {Type::kB64});
  decoder.op().details.set(SpaceQuery{.space = space->second});
  decoder.op().code = &run_isspacep;
}

constexpr std::array kOperations = {
    Operation{"cvta", &decode_cvta},
    Operation{"isspacep", &decode_isspacep},
};

}  // namespace

std::span<const Operation> address_operations() {
  return kOperations;
}

}  // namespace emu
