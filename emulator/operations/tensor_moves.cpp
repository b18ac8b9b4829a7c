// Moves between registers and tensor memory: tcgen05.ld, st, wait (PTX ISA 9.7.16.8).
//
// A warp moves a rectangle of its own 32 lanes. A load or store is executed at any time until the
// wait for it; until then the destination registers of a load are uninitialised.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emulator/machine/async_work.hpp"
#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"
#include "emulator/operations/tensor_accesses.hpp"

namespace emu {
namespace {

enum class MoveShape : std::uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };
constexpr std::array<std::string_view, 5> kShapes = {"32x32b", "16x64b", "16x128b", "16x256b",
                                                     "16x32bx2"};
constexpr std::size_t kWarpLanes = kLanes;

// tcgen05.ld and st. Slots: the address. `list`: the registers.
struct MoveForm {
  MoveShape shape = MoveShape::k32x32b;
  bool is_load = false;
  bool is_packed = false;    // a register holds the halves of two words
  std::uint32_t offset = 0;  // added to the address
  std::size_t registers = 0;
  std::size_t split = 0;  // for 16x32bx2: columns between the first half and the second

  [[nodiscard]] std::size_t lanes() const { return shape == MoveShape::k32x32b ? 32 : 16; }
  // Number of columns, in words, of one repetition.
  [[nodiscard]] std::size_t unit() const {
    constexpr std::array<std::size_t, 5> kUnits = {1, 2, 4, 8, 1};  // in the order of MoveShape
    return kUnits.at(static_cast<std::size_t>(shape));
  }
  [[nodiscard]] std::size_t registers_of_unit() const {
    return std::max<std::size_t>(1, unit() / 2);
  }
  [[nodiscard]] std::size_t columns() const {
    return registers / registers_of_unit() * unit() * (is_packed ? 2 : 1);
  }
};

// Place of the first word of a lane's register, relative to the beginning of the move. (CUTLASS,
// include/cute/atom/copy_traits_sm100.hpp, describes the layouts.)
struct Place {
  std::size_t lane = 0;
  std::size_t column = 0;
};

Place place_of(const MoveForm& form, std::size_t lane, std::size_t r) {
  const std::size_t repetition = r / form.registers_of_unit();
  const std::size_t inner = r % form.registers_of_unit();
  Place place;
  switch (form.shape) {
    case MoveShape::k32x32b:
      place = {lane, r};
      break;
    case MoveShape::k16x64b:
      place = {lane / 4 + 8 * (lane % 2), 2 * repetition + lane / 2 % 2};
      break;
    case MoveShape::k16x128b:
      place = {lane / 4 + 8 * inner, 4 * repetition + lane % 4};
      break;
    case MoveShape::k16x256b:
      place = {lane / 4 + 8 * (inner / 2), 8 * repetition + 2 * (lane % 4) + inner % 2};
      break;
    case MoveShape::k16x32bx2:
      place = {lane % 16, r};
      break;
  }
  place.column *= form.is_packed ? 2 : 1;
  if (form.shape == MoveShape::k16x32bx2 && lane >= 16) {
    place.column += form.split;
  }
  return place;
}

// Returns the one or two rectangles that a move accesses.
std::vector<TensorRange> ranges_of(const MoveForm& form, std::size_t lane, std::size_t column) {
  std::vector<TensorRange> ranges = {
      {.lane = lane, .lanes = form.lanes(), .column = column, .columns = form.columns()}};
  if (form.shape == MoveShape::k16x32bx2) {
    ranges.push_back(ranges.front());
    ranges.back().column += form.split;
  }
  return ranges;
}

class MoveWork : public AsyncWork {
 public:
  MoveWork(Warp& warp, const Op& op, std::shared_ptr<TensorMove> move, std::size_t lane,
           std::size_t column)
      : AsyncWork(warp, op, kAllLanes), move_(std::move(move)), lane_(lane), column_(column) {}

  bool step(std::mt19937_64& /*random*/) override {
    const MoveForm& form = op().get<MoveForm>();
    TensorMemory& memory = warp().block().tensor;
    const std::size_t words = form.is_packed ? 2 : 1;
    const std::uint32_t mask = form.is_packed ? 0xFFFFU : ~0U;
    for (std::size_t r = 0; r < form.registers; ++r) {
      for (std::size_t lane = 0; lane < kWarpLanes; ++lane) {
        const Place place = place_of(form, lane, r);
        const std::size_t first = tensor_place(lane_ + place.lane, column_ + place.column);
        std::uint32_t& value = move_->values[r].lanes[lane];
        const Lanes bit = Lanes{1} << lane;
        if (move_->is_load) {
          value = 0;
          bool is_valid = true;
          for (std::size_t i = 0; i < words; ++i) {
            value |= (memory.words()[first + i] & mask) << 16U * i;
            is_valid = is_valid && memory.written()[first + i] != 0;
          }
          move_->valid[r] |= is_valid ? bit : 0;
        } else {
          for (std::size_t i = 0; i < words; ++i) {
            memory.words()[first + i] = value >> 16U * i & mask;
            memory.written()[first + i] = (move_->valid[r] & bit) != 0 ? 1 : 0;
          }
        }
      }
    }
    move_->is_done = true;
    return true;
  }
  [[nodiscard]] bool needs(const Block& /*block*/) const override { return false; }

 private:
  std::shared_ptr<TensorMove> move_;
  std::size_t lane_;
  std::size_t column_;
};

// Returns the beginning of the warp's move. The warp's position in the warpgroup determines the
// lanes, which the address may leave out.
TensorRange move_begin(Warp& warp, const Op& op, Lanes lanes, const MoveForm& form) {
  const std::uint32_t address =
      uniform_value(warp, op, op.slots[0], lanes, FindingKind::kIllegalOperand,
                    "the address in tensor memory") +
      form.offset;
  const std::size_t first_lane = static_cast<std::size_t>(warp.index()) % 4 * kWarpLanes;
  // Some kernels count the lanes of a pair's second block from 128 on; hardware ignores that bit.
  const bool is_second_of_pair =
      warp.block().grid().tensor_blocks == 2 && warp.block().rank() % 2 == 1;
  const std::size_t lane =
      tensor_lane(address) & (is_second_of_pair ? ~kTensorLanes : ~std::size_t{0});
  const std::size_t offset = lane % kWarpLanes;
  if (lane - offset != 0 && lane - offset != first_lane) {
    warp.stop(
        FindingKind::kIllegalOperand, op, lanes,
        fmt::format(
            "it accesses lane {} of tensor memory, but warp {} can only access lanes {} to {}",
            lane, warp.index(), first_lane, first_lane + kWarpLanes - 1));
  }
  if (offset != 0 && (form.lanes() == kWarpLanes || offset != 16)) {
    warp.stop(
        FindingKind::kMisaligned, op, lanes,
        fmt::format("its {} lanes of tensor memory cannot begin at lane {}", form.lanes(), lane));
  }
  return {.lane = first_lane + offset, .column = tensor_column(address)};
}

Outcome run_move(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_all_lanes(op, lanes);
  if (lanes != kAllLanes) {
    warp.stop(FindingKind::kDivergent, op, lanes,
              "all 32 lanes of the warp must execute it, but some have exited");
  }
  const MoveForm& form = op.get<MoveForm>();
  const bool is_load = form.is_load;
  const TensorRange begin = move_begin(warp, op, lanes, form);
  Block& block = warp.block();
  races::TensorView view;
  if (warp.races() != nullptr) {
    view = warp.races()->tensor_move(warp.actor(), operation_number(warp, op), is_load);
  }
  for (const TensorRange& range : ranges_of(form, begin.lane, begin.column)) {
    require_allocated(warp, op, lanes, block, range);
    check_tensor_access(warp, op, lanes, block, range, view, !is_load);
  }
  auto move = std::make_shared<TensorMove>(
      TensorMove{.op = &op,
                 .is_load = is_load,
                 .values = std::vector<Vec<std::uint32_t>>(form.registers),
                 .valid = std::vector<Lanes>(form.registers)});
  for (std::size_t r = 0; r < form.registers; ++r) {
    if (is_load) {
      warp.set_valid(op.list[r], 0);
    } else {
      move->values[r] = warp.read<std::uint32_t>(op.list[r]);
      move->valid[r] = warp.valid(op.list[r]);
    }
  }
  warp.tensor_moves.push_back(move);
  warp.tensor_loads += is_load ? 1 : 0;
  block.cluster().start(
      std::make_unique<MoveWork>(warp, op, std::move(move), begin.lane, begin.column));
  return Outcome::kDone;
}

struct MoveWait {
  bool are_loads = false;  // tcgen05.wait::ld
};

Outcome run_wait(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_all_lanes(op, lanes);
  const bool are_loads = op.get<MoveWait>().are_loads;
  const auto is_of_kind = [&](const auto& move) { return move->is_load == are_loads; };
  auto& moves = warp.tensor_moves;
  if (std::ranges::any_of(moves,
                          [&](const auto& move) { return is_of_kind(move) && !move->is_done; })) {
    return warp.wait_for(WaitFor::kTensorMoves);
  }
  if (are_loads) {
    for (const auto& move : moves) {
      if (is_of_kind(move)) {
        warp.deliver(*move);
      }
    }
  }
  std::erase_if(moves, is_of_kind);
  warp.tensor_loads = are_loads ? 0 : warp.tensor_loads;
  warp.notify_races(
      [&](auto& races, auto actor) { races.wait_for_tensor_moves(actor, are_loads); });
  return Outcome::kDone;
}

// Takes the repetition count .xN.
std::size_t take_repetitions(Decoder& decoder) {
  for (std::size_t count = 1; count <= 128; count *= 2) {
    if (decoder.take(fmt::format("x{}", count))) {
      return count;
    }
  }
  decoder.fail("expected one of .x1 to .x128");
}

}  // namespace

void decode_tensor_move(Decoder& decoder, bool is_load) {
  Op& op = decoder.op();
  decoder.require("sync");
  decoder.require("aligned");
  decoder.require("b32");
  MoveForm form{.is_load = is_load};
  form.shape = static_cast<MoveShape>(decoder.take_index_of(kShapes));
  form.registers = take_repetitions(decoder) * form.registers_of_unit();
  if (form.registers > 128) {
    decoder.fail("the vector must have at most 128 registers");
  }
  form.is_packed = decoder.take(is_load ? "pack::16b" : "unpack::16b");
  const bool has_split = form.shape == MoveShape::k16x32bx2;
  decoder.expect_operands(has_split ? 3 : 2);
  const std::size_t place = is_load ? 1 : 0;  // index of the address operand
  const std::size_t values = is_load ? 0 : has_split ? 2 : 1;
  const AddressOperand address = decoder.add_address(place);
  if (address.bits != 32) {
    decoder.fail("an address in tensor memory must have 32 bits");
  }
  form.offset = static_cast<std::uint32_t>(address.offset);
  if (has_split) {
    form.split = static_cast<std::size_t>(decoder.immediate(place + 1));
  }
  for (const syntax::Operand& part : decoder.parts(values, form.registers)) {
    if (is_load) {
      decoder.add_result(part, 32);
    } else {
      op.list.push_back(decoder.source(part, Type::kB32));
    }
  }
  op.details.set(form);
  op.code = &run_move;
}

void decode_tensor_wait(Decoder& decoder, bool is_load) {
  decoder.require("sync");
  decoder.require("aligned");
  decoder.expect_operands(0);
  decoder.op().details.set(MoveWait{.are_loads = is_load});
  decoder.op().code = &run_wait;
}

}  // namespace emu
