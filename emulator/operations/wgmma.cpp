// Matrix products of a warpgroup: wgmma.fence, mma_async, commit_group, wait_group (PTX
// ISA 9.7.15).
//
// Each of the four warps computes 16 rows. Registers of a product may not be accessed from its
// issue until a wait_group covers it, and a fence must order the product after earlier accesses by
// other instructions. Groups are those of the warpgroup: a wait_group of any warp waits until all
// four have computed their rows.
#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"
#include "emulator/operations/wgmma_product.hpp"

namespace emu {
namespace {

// Checks that all four warps of the warpgroup exist and issue the same instructions. Returns the
// number of the instruction among those issued.
std::uint64_t issue_in_warpgroup(Warp& warp, const Op& op, Lanes lanes,
                                 const std::array<std::uint64_t, 2>& descriptors = {}) {
  warp.require_all_lanes(op, lanes);
  std::deque<Warp>& warps = warp.block().warps();
  const auto index = static_cast<std::size_t>(warp.index());
  const std::size_t first = index / kWarpsPerWarpgroup * kWarpsPerWarpgroup;
  WarpgroupInstructions& warpgroup = warps[first].products.warpgroup;
  const std::uint64_t number = warpgroup.next.at(index - first);
  for (std::size_t i = 0; i < kWarpsPerWarpgroup; ++i) {
    const bool exists = first + i < warps.size();
    // A warp may exit after it has issued this instruction.
    if (!exists || (warpgroup.next.at(i) <= number && warps[first + i].live_lanes() != kAllLanes)) {
      warp.stop(FindingKind::kDivergent, op, lanes,
                fmt::format("all four warps of the warpgroup must execute it, but warp {} {}",
                            first + i, exists ? "has exited lanes" : "does not exist"));
    }
  }
  ++warpgroup.next.at(index - first);
  const std::size_t entry = number - warpgroup.first;
  if (entry == warpgroup.entries.size()) {
    warpgroup.entries.push_back({.op = &op, .descriptors = descriptors});
  } else if (const WarpgroupInstructions::Entry& other = warpgroup.entries[entry];
             other.op != &op) {
    warp.stop(FindingKind::kDivergent, op, lanes,
              fmt::format("another warp of the warpgroup executes {} (line {}) instead of it",
                          other.op->instruction->opcode, other.op->instruction->line));
  } else if (other.descriptors != descriptors) {
    warp.stop(
        FindingKind::kIllegalOperand, op, lanes,
        fmt::format(
            "its descriptors are {:#x} and {:#x}, but another warp of the warpgroup has {:#x} "
            "and {:#x}",
            descriptors[0], descriptors[1], other.descriptors[0], other.descriptors[1]));
  }
  while (*std::ranges::min_element(warpgroup.next) > warpgroup.first) {
    warpgroup.entries.pop_front();
    ++warpgroup.first;
  }
  return number;
}

// Returns the descriptor, which must be the same in all lanes.
std::uint64_t read_descriptor(Warp& warp, const Op& op, Slot slot, Lanes lanes,
                              std::string_view name, const MatrixShape& shape) {
  const auto bits =
      uniform_value<std::uint64_t>(warp, op, slot, lanes, FindingKind::kIllegalOperand, name);
  if (const CheckResult result = check_matrix(bits, shape); !result) {
    warp.stop(FindingKind::kIllegalOperand, op, lanes,
              fmt::format("{}, {:#x}: {}", name, bits, result.reason));
  }
  return bits;
}

bool read_scale_d(Warp& warp, const Op& op, Lanes lanes, bool is_negated) {
  warp.require_valid(op.slots[2], op, lanes, "scale-d");
  const Lanes holds = warp.read_predicate(op.slots[2]);
  if (holds != 0 && holds != kAllLanes) {
    warp.stop(FindingKind::kIllegalOperand, op, lanes, "lanes have different values for scale-d");
  }
  return (holds != 0) != is_negated;
}

// Checks that the product may use a register now. A register of A may be given a constant behind
// the fence, and with `late_zeros` an accumulator.
CheckResult check_register(const MatrixProducts& products, const RegisterUse& use, const Op& op,
                           bool is_accumulator, bool late_zeros) {
  if (use.fences_before_write == products.fences + 1 &&
      !(use.is_constant && (!is_accumulator || late_zeros))) {
    return {fmt::format(
        "{} (line {}) has written one of its registers, without a wgmma.fence in between",
        use.writer->instruction->opcode, use.writer->instruction->line)};
  }
  if (is_accumulator && use.fences_before_read == products.fences + 1) {
    return {
        fmt::format("{} (line {}) has read one of its registers, without a wgmma.fence in between",
                    use.reader->instruction->opcode, use.reader->instruction->line)};
  }
  if (!products.is_in_flight(use)) {
    return {};
  }
  const auto other = [&] {
    return fmt::format("{} (line {})", use.op->instruction->opcode, use.op->instruction->line);
  };
  if (!is_accumulator && use.is_accumulator) {
    return {fmt::format("A is in the accumulator of {}, for which no wgmma.wait_group has waited",
                        other())};
  }
  // Products that share accumulator registers are ordered if they have the same shape.
  const WgmmaForm& earlier = use.op->get<WgmmaForm>();
  const WgmmaForm& form = op.get<WgmmaForm>();
  const bool has_same_shape = earlier.columns == form.columns &&
                              bytes_of(earlier.a) == bytes_of(form.a) &&
                              earlier.parts() == form.parts();
  if (is_accumulator && !(use.is_accumulator && has_same_shape) && use.fences == products.fences) {
    return {fmt::format(
        "{} uses a register of its accumulator in another way, without a wgmma.fence in "
        "between",
        other())};
  }
  return {};
}

// Checks the reads of the operands: the warp's rows of A, and all of B.
void check_operands(Warp& warp, const Op& op, const std::array<std::uint64_t, 2>& descriptors) {
  const WgmmaForm& form = op.get<WgmmaForm>();
  const AsyncAccesses accesses(warp, op, kAllLanes, races::GroupKind::kProduct);
  Block& block = warp.block();
  const auto read = [&](std::uint64_t bits, const MatrixShape& shape, std::size_t first,
                        std::size_t count) {
    const ElementAddresses addresses(MatrixDescriptor::from_bits(bits), shape);
    const auto check = [&](std::uint32_t address, std::uint32_t bytes) {
      // Reads out of bounds are reported when the product runs.
      if (bytes != 0 && address + bytes <= block.shared.size()) {
        accesses.read_shared(block, address, bytes);
      }
    };
    // Chunks that follow or precede the one before them are checked with it.
    std::uint32_t begin = 0;
    std::uint32_t bytes = 0;
    for_each_chunk(shape, count, [&](std::size_t line, std::size_t k) {
      const std::uint32_t address = addresses(first + line, k);
      if (bytes != 0 && (address == begin + bytes || address + kChunkBytes == begin)) {
        begin = std::min(begin, address);
        bytes += kChunkBytes;
        return;
      }
      check(begin, bytes);
      begin = address;
      bytes = kChunkBytes;
    });
    check(begin, bytes);
  };
  if (!form.is_a_in_registers) {
    read(descriptors[0], form.shape_of_a(),
         static_cast<std::size_t>(warp.index()) % kWarpsPerWarpgroup * kRowsPerWarp, kRowsPerWarp);
  }
  read(descriptors[1], form.shape_of_b(), 0, form.columns);
}

// `list`: the accumulators, and A's registers if A is in registers. Slots: the descriptors of A and
// B, scale-d.
Outcome run_product(Warp& warp, const Op& op, Lanes lanes) {
  const WgmmaForm& form = op.get<WgmmaForm>();
  warp.require_all_lanes(op, lanes);
  MatrixProducts& products = warp.products;
  products.uses.resize(warp.block().grid().program->async_registers);
  std::array<std::uint64_t, 2> descriptors{};
  if (!form.is_a_in_registers) {
    descriptors[0] =
        read_descriptor(warp, op, op.slots[0], lanes, "the descriptor of A", form.shape_of_a());
  }
  descriptors[1] =
      read_descriptor(warp, op, op.slots[1], lanes, "the descriptor of B", form.shape_of_b());
  const bool adds = read_scale_d(warp, op, lanes, form.is_scale_negated);
  const std::uint64_t place = issue_in_warpgroup(warp, op, lanes, descriptors);
  if (products.fences == 0) {
    warp.report(FindingKind::kRegisterRace, op, lanes,
                "the warp has executed no wgmma.fence before it");
  }
  const bool late_zeros = !warp.grid().checks_zeroed_accumulators;
  for (std::size_t i = 0; i < op.list.size(); ++i) {
    const bool is_accumulator = i < form.accumulators();
    const RegisterUse& use = products.uses[op.async_registers[i].number];
    warp.expect(check_register(products, use, op, is_accumulator, late_zeros),
                FindingKind::kRegisterRace, op, lanes);
    if (!products.is_in_flight(use) && (adds || !is_accumulator)) {
      warp.require_valid(op.list[i], op, lanes,
                         is_accumulator ? "a register of the accumulator" : "a register of A");
    }
  }
  const std::uint64_t number = ++products.issued_count;
  for (std::size_t i = 0; i < op.list.size(); ++i) {
    RegisterUse& use = products.uses[op.async_registers[i].number];
    use = {.product = number,
           .op = &op,
           .fences = products.fences,
           .is_accumulator = i < form.accumulators()};
    if (use.is_accumulator) {
      warp.set_valid(op.list[i], 0);
    }
  }
  products.pending.push_back({.number = number, .op = &op});
  if (warp.races() != nullptr) {
    check_operands(warp, op, descriptors);
  }
  warp.block().cluster().start(
      std::make_unique<WgmmaProduct>(warp, op, descriptors, adds, number, place));
  return Outcome::kDone;
}

Outcome run_fence(Warp& warp, const Op& op, Lanes lanes) {
  issue_in_warpgroup(warp, op, lanes);
  ++warp.products.fences;
  return Outcome::kDone;
}

Outcome run_commit(Warp& warp, const Op& op, Lanes lanes) {
  issue_in_warpgroup(warp, op, lanes);
  warp.products.groups.push_back(warp.products.issued_count);
  warp.notify_races(
      [](auto& races, auto actor) { races.commit(actor, races::GroupKind::kProduct); });
  return Outcome::kDone;
}

struct WgmmaWait {
  std::size_t max_pending = 0;  // maximum number of incomplete groups
};

// Returns the number of the last product that all warps of the warpgroup have computed. All issue
// the same products, so that these have the same numbers in each.
std::uint64_t last_finished_in_warpgroup(Warp& warp) {
  const std::deque<Warp>& warps = warp.block().warps();
  const std::size_t first =
      static_cast<std::size_t>(warp.index()) / kWarpsPerWarpgroup * kWarpsPerWarpgroup;
  std::uint64_t last = warp.products.last_finished;
  for (std::size_t i = first; i < first + kWarpsPerWarpgroup; ++i) {
    last = std::min(last, warps[i].products.last_finished);
  }
  return last;
}

Outcome run_wait(Warp& warp, const Op& op, Lanes lanes) {
  Split& split = warp.current();
  if (split.ticket < 0) {
    issue_in_warpgroup(warp, op, lanes);
    split.ticket = 0;
  }
  MatrixProducts& products = warp.products;
  while (products.groups.size() > op.get<WgmmaWait>().max_pending) {
    const std::uint64_t last = products.groups.front();
    if (last_finished_in_warpgroup(warp) < last) {
      return warp.wait_for(WaitFor::kProducts);
    }
    products.groups.pop_front();
    products.last_completed = last;
  }
  split.ticket = -1;
  while (!products.pending.empty() && products.pending.front().number <= products.last_completed) {
    const Op& product = *products.pending.front().op;
    for (std::size_t i = 0; i < product.get<WgmmaForm>().accumulators(); ++i) {
      if (!products.is_in_flight(products.uses[product.async_registers[i].number])) {
        warp.set_valid(product.list[i], kAllLanes);
      }
    }
    products.pending.pop_front();
  }
  if (warp.races() != nullptr) {
    const std::uint32_t committed =
        warp.races()->committed(warp.actor(), races::GroupKind::kProduct);
    warp.races()->wait_groups(warp.actor(), races::GroupKind::kProduct,
                              committed - static_cast<std::uint32_t>(products.groups.size()));
  }
  return Outcome::kDone;
}

// Types of A and B, and whether there are sums in binary32 and binary16.
struct WgmmaType {
  Type type;
  Element element;
  bool has_f32;
  bool has_f16;
};
constexpr std::array kTypes = {
    WgmmaType{Type::kF16, Element::kF16, true, true},
    WgmmaType{Type::kBF16, Element::kBF16, true, false},
    WgmmaType{Type::kTF32, Element::kTF32, true, false},
    WgmmaType{Type::kE4M3, Element::kE4M3, true, true},
    WgmmaType{Type::kE5M2, Element::kE5M2, true, true},
    WgmmaType{Type::kS8, Element::kS8, false, false},
    WgmmaType{Type::kU8, Element::kU8, false, false},
};

const WgmmaType& wgmma_type(const Decoder& decoder, Type type) {
  const auto* const row = std::ranges::find(kTypes, type, &WgmmaType::type);
  if (row == kTypes.end()) {
    decoder.fail("unsupported product");
  }
  return *row;
}

// Takes the types of D, A and B.
void take_types(Decoder& decoder, WgmmaForm& form) {
  const Type result = decoder.take_type();
  const WgmmaType& a = wgmma_type(decoder, decoder.take_type());
  const WgmmaType& b = wgmma_type(decoder, decoder.take_type());
  const bool is_known = result == Type::kF32   ? a.has_f32
                        : result == Type::kF16 ? a.has_f16
                                               : result == Type::kS32 && !is_float(a.element);
  const bool are_both_bytes = bytes_of(a.element) == 1 && bytes_of(b.element) == 1 &&
                              is_float(a.element) == is_float(b.element);
  if (!is_known || (a.type != b.type && !are_both_bytes)) {
    decoder.fail("unsupported product");
  }
  form.a = a.element;
  form.b = b.element;
  form.accumulator = result == Type::kF32   ? Accumulator::kF32
                     : result == Type::kF16 ? Accumulator::kF16
                                            : Accumulator::kS32;
}

// Takes the shape .m64nNkK and returns N.
std::size_t take_columns(Decoder& decoder, std::size_t depth) {
  for (std::size_t columns = 8; columns <= kMaxColumns; columns += 8) {
    if (decoder.take(fmt::format("m64n{}k{}", columns, depth))) {
      return columns;
    }
  }
  decoder.fail(fmt::format("expected .m64n8k{0} to .m64n256k{0}", depth));
}

// Returns whether an integer operand is the second of two allowed values; fails if it is neither.
bool take_flag(const Decoder& decoder, std::size_t index, std::int64_t first, std::int64_t second) {
  const std::int64_t value = decoder.immediate(index);
  if (value != first && value != second) {
    decoder.fail(fmt::format("operand {} must be {} or {}", index + 1, first, second));
  }
  return value == second;
}

void decode_product(Decoder& decoder) {
  Op& op = decoder.op();
  WgmmaForm form;
  take_types(decoder, form);
  form.columns = take_columns(decoder, form.depth());
  if (!is_float(form.a) && form.columns > 32 && form.columns % 16 != 0) {
    decoder.fail("unsupported shape for integers");
  }
  form.is_saturating = !is_float(form.a) && decoder.take("satfinite");
  form.is_a_in_registers = decoder.operand(1).kind == syntax::OperandKind::kVector;
  // Operands: d, a, b, scale-d; for floats scale-a and scale-b; for 16-bit floats trans-a, if A has
  // a descriptor, and trans-b.
  const std::size_t transposes = bytes_of(form.a) != 2    ? 0
                                 : form.is_a_in_registers ? std::size_t{1}
                                                          : std::size_t{2};
  decoder.expect_operands((is_float(form.a) ? 6 : 4) + transposes);
  if (is_float(form.a)) {
    form.is_a_negated = take_flag(decoder, 4, 1, -1);
    form.is_b_negated = take_flag(decoder, 5, 1, -1);
  }
  form.is_a_k_major = transposes < 2 || !take_flag(decoder, 6, 0, 1);
  form.is_b_k_major = transposes < 1 || !take_flag(decoder, 5 + transposes, 0, 1);
  for (const syntax::Operand& part : decoder.parts(0, form.accumulators())) {
    decoder.add_result(part, 32);
  }
  form.a_registers = &fragment_of({.lines = kRowsPerWarp, .width = kWordsOfLine, .is_wide = true});
  if (form.is_a_in_registers) {
    for (const syntax::Operand& part : decoder.parts(1, kRegistersForA)) {
      op.list.push_back(decoder.destination(part, 32));
    }
    decoder.add(kNoSlot);
  } else {
    decoder.add(decoder.source(1, Type::kB64));
  }
  decoder.add(decoder.source(2, Type::kB64));
  decoder.add(decoder.predicate(decoder.operand(3), form.is_scale_negated));
  op.details.set(form);
  op.is_async_product = true;
  op.code = &run_product;
}

void decode_wgmma(Decoder& decoder) {
  Op& op = decoder.op();
  decoder.require("sync");
  decoder.require("aligned");
  if (decoder.take("mma_async")) {
    decode_product(decoder);
  } else if (decoder.take("fence")) {
    decoder.expect_operands(0);
    op.code = &run_fence;
  } else if (decoder.take("commit_group")) {
    decoder.expect_operands(0);
    op.code = &run_commit;
  } else {
    decoder.require("wait_group");
    decoder.expect_operands(1);
    const std::int64_t max_pending = decoder.immediate(0);
    if (max_pending < 0) {
      decoder.fail("expected a non-negative number of groups");
    }
    op.details.set(WgmmaWait{.max_pending = static_cast<std::size_t>(max_pending)});
    op.code = &run_wait;
  }
}

constexpr std::array kOperations = {Operation{"wgmma", &decode_wgmma}};

}  // namespace

std::span<const Operation> wgmma_operations() {
  return kOperations;
}

}  // namespace emu
