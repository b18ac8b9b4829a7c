// Instructions that a thread issues to tensor cores: tcgen05.mma, cp, commit (PTX ISA 9.7.16.9, .10
// and .12). Each executing thread issues a separate operation.
#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/mbarrier.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/tensor_accesses.hpp"
#include "emulator/operations/tensor_work.hpp"

namespace emu {
namespace {

// An instruction that a lane issues, with its state in the race detector.
struct Issue {
  Warp& warp;
  const Op& op;
  int lane;
  std::size_t blocks = 1;
  std::uint64_t form = 0;
  races::ClusterRaces::TensorIssue issue{};
  races::View shared{};
  races::TensorView tensor{};

  Issue(Warp& issuing_warp, const Op& issued_op, int issuing_lane, std::size_t block_count,
        std::uint64_t operation_form)
      : warp(issuing_warp),
        op(issued_op),
        lane(issuing_lane),
        blocks(block_count),
        form(operation_form) {
    if (races::ClusterRaces* const races = warp.races(); races != nullptr) {
      const std::uint32_t operation = operation_number(warp, op);
      issue = races->issue_tensor(warp.actor(), lane);
      shared = races->tensor_shared_view(warp.actor(), operation, issue);
      tensor = races->tensor_view(warp.actor(), operation, issue, form);
    }
  }

  void read_shared(std::span<const SharedRange> ranges, std::string_view name) const {
    for (const auto& [number, first, bytes] : ranges) {
      Block& block = tensor_block(warp, blocks, number);
      if (first < kReservedSharedBytes || first + bytes > block.shared.size()) {
        warp.stop(FindingKind::kOutOfBounds, op, lane_bit(lane),
                  fmt::format("{}'s {} bytes at {:#x} are outside of block ({})'s shared memory",
                              name, bytes, first, fmt::join(block.index(), ",")));
      }
      AsyncAccesses(warp, op, lane_bit(lane), shared).read_shared(block, first, bytes);
    }
  }
  void access_tensor(std::span<const TensorRange> ranges, bool is_write) const {
    for (const TensorRange& range : ranges) {
      Block& block = tensor_block(warp, blocks, range.block);
      require_allocated(warp, op, lane_bit(lane), block, range);
      check_tensor_access(warp, op, lane_bit(lane), block, range, tensor, is_write);
    }
  }
};

// Identifies products into the same accumulator with the same shape.
std::uint64_t product_form(const UmmaProduct& product) {
  const UmmaInstruction instruction = UmmaInstruction::from_bits(product.form, product.instruction);
  return std::uint64_t{product.d} | std::uint64_t{instruction.rows} << 32U |
         std::uint64_t{instruction.columns} << 48U;
}

struct TensorProductOp {
  UmmaForm form{};
  std::uint32_t d_offset = 0;  // added to the address of D
  std::uint32_t a_offset = 0;  // added to the address of A in tensor memory
  bool is_enable_negated = false;
};

// `list` of a product: D, A, B, the instruction descriptor, enable-input-d, the scale factors of A
// and B (optional), masks of disabled lanes.
constexpr std::array<std::string_view, 7> kProductNames = {"the address of D",
                                                           "A",
                                                           "the descriptor of B",
                                                           "the instruction's descriptor",
                                                           "enable-input-d",
                                                           "the address of A's scale factors",
                                                           "the address of B's scale factors"};

UmmaProduct read_product(Warp& warp, const Op& op, int lane) {
  const std::vector<Slot>& list = op.list;
  const TensorProductOp& details = op.get<TensorProductOp>();
  UmmaProduct product{.form = details.form};
  product.d = warp.read_lane<std::uint32_t>(list[0], lane) + details.d_offset;
  product.a = product.form.is_a_in_tensor_memory
                  ? warp.read_lane<std::uint32_t>(list[1], lane) + details.a_offset
                  : warp.read_lane<std::uint64_t>(list[1], lane);
  product.b = warp.read_lane<std::uint64_t>(list[2], lane);
  product.instruction = warp.read_lane<std::uint32_t>(list[3], lane);
  product.adds =
      ((warp.read_predicate(list[4]) & lane_bit(lane)) != 0) != details.is_enable_negated;
  if (product.form.has_scales()) {
    product.scale_a = warp.read_lane<std::uint32_t>(list[5], lane);
    product.scale_b = warp.read_lane<std::uint32_t>(list[6], lane);
  }
  for (std::size_t i = 7; i < list.size(); ++i) {
    product.disabled_lanes.at(i - 7) = warp.read_lane<std::uint32_t>(list[i], lane);
  }
  return product;
}

Outcome run_product(Warp& warp, const Op& op, Lanes lanes) {
  require_tensor_blocks(warp, op, lanes, op.get<TensorProductOp>().form.blocks);
  for (std::size_t i = 0; i < op.list.size(); ++i) {
    if (op.list[i] != kNoSlot) {
      warp.require_valid(op.list[i], op, lanes,
                         i < kProductNames.size() ? kProductNames.at(i) : "a mask of lanes");
    }
  }
  for_each_lane(lanes, [&](int lane) {
    const UmmaProduct product = read_product(warp, op, lane);
    warp.require(check_product(product), FindingKind::kIllegalOperand, op, lane_bit(lane));
    UmmaAccesses accesses = accesses_of(product);
    const Issue issue(warp, op, lane, product.form.blocks, product_form(product));
    issue.read_shared(accesses.a, "A");
    issue.read_shared(accesses.b, "B");
    issue.access_tensor(accesses.a_words, false);
    issue.access_tensor(accesses.scales, false);
    issue.access_tensor(accesses.d, true);
    warp.block().cluster().start(
        std::make_unique<TensorProduct>(warp, op, lane, product, std::move(accesses)));
  });
  return Outcome::kDone;
}

// Form of a copy, by its shape and multicast.
struct CopyForm {
  std::string_view name;
  std::string_view multicast;
  std::size_t rows;
  std::size_t bytes;
  std::array<std::size_t, 4> first_rows;  // first row for each group of 32 lanes
};
constexpr std::array<CopyForm, 5> kCopyForms = {{
    {"128x256b", "", 128, 32, {0, 32, 64, 96}},
    {"128x128b", "", 128, 16, {0, 32, 64, 96}},
    {"64x128b", "warpx2::02_13", 64, 16, {0, 32, 0, 32}},
    {"64x128b", "warpx2::01_23", 64, 16, {0, 0, 32, 32}},
    {"32x128b", "warpx4", 32, 16, {0, 0, 0, 0}},
}};

std::vector<TensorCopyUnit> copy_units(const CopyForm& form, std::uint64_t descriptor,
                                       std::size_t column) {
  const MatrixShape shape{.lines = form.rows, .depth = form.bytes, .element_bytes = 1};
  const MatrixDescriptor matrix = MatrixDescriptor::from_bits(descriptor);
  std::vector<TensorCopyUnit> units;
  for (std::size_t lane = 0; lane < kTensorLanes; ++lane) {
    for (std::size_t byte = 0; byte < form.bytes; byte += kChunkBytes) {
      units.push_back(
          {.shared = address_of(matrix, shape, form.first_rows.at(lane / 32) + lane % 32, byte),
           .lane = lane,
           .column = column + byte / 4});
    }
  }
  return units;
}

// Slots: the address in tensor memory, the descriptor.
struct TensorCopyOp {
  std::size_t form = 0;  // index in kCopyForms
  std::size_t blocks = 1;
  AddressOperand to{};
};

Outcome run_copy(Warp& warp, const Op& op, Lanes lanes) {
  const TensorCopyOp& details = op.get<TensorCopyOp>();
  require_tensor_blocks(warp, op, lanes, details.blocks);
  warp.require_valid(op.slots[0], op, lanes, "the address in tensor memory");
  warp.require_valid(op.slots[1], op, lanes, "the descriptor");
  const CopyForm& form = kCopyForms.at(details.form);
  for_each_lane(lanes, [&](int lane) {
    const auto address = static_cast<std::uint32_t>(address_of(warp, details.to, lane));
    const auto descriptor = warp.read_lane<std::uint64_t>(op.slots[1], lane);
    const MatrixShape shape{.lines = form.rows, .depth = form.bytes, .element_bytes = 1};
    if (const CheckResult result = check_umma_matrix(descriptor, shape); !result) {
      warp.stop(FindingKind::kIllegalOperand, op, lane_bit(lane),
                fmt::format("the descriptor {:#x}: {}", descriptor, result.reason));
    }
    if (tensor_lane(address) != 0) {
      warp.stop(FindingKind::kIllegalOperand, op, lane_bit(lane),
                fmt::format("its 128 lanes of tensor memory must begin at lane 0, not at lane {}",
                            tensor_lane(address)));
    }
    const std::size_t column = tensor_column(address);
    const Issue issue(warp, op, lane, details.blocks, races::kCopyForm);
    std::vector<TensorCopyUnit> units = copy_units(form, descriptor, column);
    for (std::size_t i = 0; i < details.blocks; ++i) {
      const TensorRange destination{.block = i,
                                    .lanes = kTensorLanes,
                                    .column = column,
                                    .columns = form.bytes / sizeof(std::uint32_t)};
      issue.access_tensor({&destination, 1}, true);
      for (const TensorCopyUnit& unit : units) {
        const SharedRange source{.block = i, .first = unit.shared, .bytes = kChunkBytes};
        issue.read_shared({&source, 1}, "the matrix to copy");
      }
    }
    warp.block().cluster().start(
        std::make_unique<TensorCopy>(warp, op, lane, details.blocks, std::move(units)));
  });
  return Outcome::kDone;
}

// Slots: the mbarrier's address, the mask of blocks (optional).
struct TensorCommitOp {
  std::size_t blocks = 1;
  AddressOperand mbarrier{};
};

Outcome run_commit(Warp& warp, const Op& op, Lanes lanes) {
  const TensorCommitOp& details = op.get<TensorCommitOp>();
  require_tensor_blocks(warp, op, lanes, details.blocks);
  warp.require_valid(op.slots[0], op, lanes, "the mbarrier's address");
  if (op.slots[1] != kNoSlot) {
    warp.require_valid(op.slots[1], op, lanes, "the mask of blocks");
  }
  std::deque<Block>& blocks = warp.block().cluster().blocks();
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = address_of(warp, details.mbarrier, lane) % kWindowBytes;
    std::uint32_t mask = 1U << (address >> kRankShift & 31U);
    if (op.slots[1] != kNoSlot) {
      mask = warp.read_lane<std::uint16_t>(op.slots[1], lane);
      if (mask == 0 || mask >> blocks.size() != 0) {
        warp.stop(FindingKind::kIllegalOperand, op, lane_bit(lane),
                  fmt::format("the mask of blocks is {:#x}, but the cluster has {} blocks", mask,
                              blocks.size()));
      }
    }
    const Issue issue(warp, op, lane, details.blocks, 0);
    std::vector<std::uint64_t> mbarriers;
    for (std::uint32_t remaining = mask; remaining != 0; remaining &= remaining - 1) {
      const auto rank = static_cast<std::uint64_t>(std::countr_zero(remaining));
      mbarriers.push_back(rank << kRankShift | (address & kOffsetMask));
      Mbarrier& mbarrier =
          find_mbarrier(warp, op, lane, MemorySpace::kClusterShared, mbarriers.back());
      require_initialized(warp, op, lane_bit(lane), mbarrier, false);
      if (warp.races() != nullptr) {
        std::erase_if(mbarrier.remote_arrivals, [&](const races::Access& arrival) {
          return arrival.party == issue.tensor.access.party;
        });
        mbarrier.remote_arrivals.push_back(issue.tensor.access);
      }
    }
    races::Order released;
    if (warp.races() != nullptr) {
      released = warp.races()->tensor_commit(warp.actor(), issue.issue);
    }
    warp.block().cluster().start(
        std::make_unique<TensorCommit>(warp, op, lane, details.blocks, std::move(mbarriers),
                                       std::move(released), issue.tensor.access));
  });
  return Outcome::kDone;
}

// Names, in the order of UmmaKind.
constexpr std::array<std::string_view, 4> kKindNames = {"kind::f16", "kind::f8f6f4", "kind::i8",
                                                        "kind::mxf8f6f4"};

AddressOperand tensor_address_operand(const Decoder& decoder, std::size_t index) {
  const AddressOperand address = decoder.address(decoder.operand(index));
  if (address.bits != 32) {
    decoder.fail("an address in tensor memory must have 32 bits");
  }
  return address;
}

}  // namespace

void decode_tensor_product(Decoder& decoder) {
  Op& op = decoder.op();
  TensorProductOp details;
  details.form.blocks = take_tensor_group(decoder);
  details.form.kind = static_cast<UmmaKind>(decoder.take_index_of(kKindNames));
  const bool has_scales = details.form.has_scales();
  if (has_scales) {
    decoder.require("block_scale");
    if (!decoder.take("block32")) {
      decoder.take("scale_vec::1X");
    }
  }
  // Takes hints for the collector buffer of A, which have no effect: memory still holds what the
  // buffer may keep.
  decoder.take_any_of({"collector::a::fill", "collector::a::use", "collector::a::lastuse",
                       "collector::a::discard"});
  const std::size_t count = decoder.instruction().operands.size();
  const bool has_mask =
      !has_scales && count > 4 && decoder.operand(4).kind == syntax::OperandKind::kVector;
  decoder.expect_operands(has_scales ? 7 : has_mask ? 6 : 5);
  details.form.is_a_in_tensor_memory = decoder.operand(1).kind == syntax::OperandKind::kAddress;
  const auto add_address = [&](std::size_t index) {
    const AddressOperand address = tensor_address_operand(decoder, index);
    op.list.push_back(address.slot);
    return static_cast<std::uint32_t>(address.offset);
  };
  details.d_offset = add_address(0);
  if (details.form.is_a_in_tensor_memory) {
    details.a_offset = add_address(1);
  } else {
    op.list.push_back(decoder.source(1, Type::kB64));
  }
  op.list.push_back(decoder.source(2, Type::kB64));
  op.list.push_back(decoder.source(3, Type::kB32));
  op.list.push_back(decoder.predicate(decoder.operand(count - 1), details.is_enable_negated));
  for (std::size_t i = 4; i < 6; ++i) {
    const AddressOperand scales =
        has_scales ? tensor_address_operand(decoder, i) : AddressOperand{};
    op.list.push_back(scales.slot);
    if (scales.offset != 0) {
      decoder.fail("unsupported offset of scale factors");
    }
  }
  if (has_mask) {
    const auto& parts = decoder.operand(4).parts;
    if (const std::size_t masks = 4 * details.form.blocks; parts.size() != masks) {
      decoder.fail(fmt::format("expected {} masks of lanes, got {}", masks, parts.size()));
    }
    for (const syntax::Operand& part : parts) {
      op.list.push_back(decoder.source(part, Type::kB32));
    }
  }
  op.details.set(details);
  op.code = &run_product;
}

void decode_tensor_copy(Decoder& decoder) {
  Op& op = decoder.op();
  const std::size_t blocks = take_tensor_group(decoder);
  std::size_t form = 0;
  for (; form < kCopyForms.size(); ++form) {
    const CopyForm& candidate = kCopyForms.at(form);
    if (!candidate.multicast.empty() && !decoder.take(candidate.multicast)) {
      continue;
    }
    if (decoder.take(candidate.name)) {
      break;
    }
  }
  if (form == kCopyForms.size()) {
    decoder.fail("unsupported shape");
  }
  decoder.expect_operands(2);
  const AddressOperand to = tensor_address_operand(decoder, 0);
  decoder.add(to.slot);
  decoder.add(decoder.source(1, Type::kB64));
  op.details.set(TensorCopyOp{.form = form, .blocks = blocks, .to = to});
  op.code = &run_copy;
}

void decode_tensor_commit(Decoder& decoder) {
  Op& op = decoder.op();
  const std::size_t blocks = take_tensor_group(decoder);
  decoder.require("mbarrier::arrive::one");
  decoder.take("shared::cluster");
  const bool is_multicast = decoder.take("multicast::cluster");
  decoder.require("b64");
  decoder.expect_operands(is_multicast ? 2 : 1);
  op.details.set(TensorCommitOp{.blocks = blocks, .mbarrier = decoder.add_address(0)});
  decoder.add(is_multicast ? decoder.source(1, Type::kU16) : kNoSlot);
  op.code = &run_commit;
}

}  // namespace emu
