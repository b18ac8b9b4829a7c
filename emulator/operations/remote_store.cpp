// Asynchronous stores and reductions to shared memory of the cluster that an mbarrier counts:
// st.async, red.async.
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/atomic_values.hpp"
#include "emulator/operations/mbarrier.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

constexpr std::size_t kMaxElements = 4;

// Slots: the address, the mbarrier's address. `list`: the values.
struct RemoteAccess {
  AddressOperand address{};
  AddressOperand mbarrier{};
  ComputeAtomic reduction = nullptr;
  std::uint8_t count = 1;
  std::uint8_t bits = 32;  // of an element

  [[nodiscard]] std::size_t element() const { return bits / 8U; }
  [[nodiscard]] std::size_t bytes() const { return element() * count; }
};

class RemoteStore : public AsyncWork {
 public:
  struct Element {
    std::uint64_t value = 0;
    bool is_valid = false;
  };

  RemoteStore(Warp& warp, const Op& op, int lane, Block& block, const Memory& memory,
              std::uint64_t mbarrier, const std::array<Element, kMaxElements>& elements)
      : AsyncWork(warp, op, lane_bit(lane)),
        lane_(lane),
        block_(block),
        memory_(memory),
        mbarrier_(mbarrier),
        elements_(elements) {}

  bool step(std::mt19937_64& /*random*/) override {
    const auto& access = op().get<RemoteAccess>();
    const std::size_t element = access.element();
    for (std::size_t i = 0; i < access.count; ++i) {
      const auto& [value, is_valid] = elements_.at(i);
      std::uint64_t result = value;
      bool is_result_valid = is_valid;
      if (access.reduction != nullptr) {
        std::uint64_t old = 0;
        std::memcpy(&old, memory_.bytes + i * element, element);
        result = access.reduction(old, value, 0);
        is_result_valid = is_valid && memory_.is_written(i * element, element);
      }
      std::memcpy(memory_.bytes + i * element, &result, element);
      memory_.set_written(i * element, element, is_result_valid);
    }
    Mbarrier& mbarrier = find_mbarrier(warp(), op(), lane_, MemorySpace::kClusterShared, mbarrier_);
    mbarrier.counter = {&warp(), &op(), lanes()};
    warp().require(mbarrier.complete_copy(static_cast<std::uint32_t>(access.bytes())),
                   FindingKind::kBarrierMisuse, op(), lanes());
    return true;
  }
  [[nodiscard]] bool needs(const Block& block) const override { return &block == &block_; }

 private:
  int lane_;
  Block& block_;
  Memory memory_;
  std::uint64_t mbarrier_;
  std::array<Element, kMaxElements> elements_;
};

Outcome run_remote_store(Warp& warp, const Op& op, Lanes lanes) {
  const RemoteAccess& access = op.get<RemoteAccess>();
  warp.require_valid(op.slots[0], op, lanes, "the address");
  warp.require_valid(op.slots[1], op, lanes, "the mbarrier's address");
  std::array<Vec<std::uint64_t>, kMaxElements> values{};
  for (std::size_t i = 0; i < access.count; ++i) {
    values.at(i) = read_bits(warp, op.list[i], access.bits);
  }
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = address_of(warp, access.address, lane);
    const std::uint64_t mbarrier = address_of(warp, access.mbarrier, lane) % kWindowBytes;
    const Memory memory =
        resolve(warp, op, lane, MemorySpace::kClusterShared, address, access.bytes());
    if (address % kWindowBytes >> kRankShift != mbarrier >> kRankShift) {
      warp.stop(FindingKind::kIllegalOperand, op, lane_bit(lane),
                fmt::format("the mbarrier {:#x} is in another block than the destination {:#x}",
                            mbarrier, address));
    }
    Mbarrier& counter = find_mbarrier(warp, op, lane, MemorySpace::kClusterShared, mbarrier);
    require_initialized(warp, op, lane_bit(lane), counter, false);
    counter.begin_copy(access.bytes());
    AsyncAccesses accesses(warp, op, lane_bit(lane), counter);
    if (access.reduction != nullptr) {
      accesses.make_strong();
    } else {
      memory.set_written(0, access.bytes(), false);
    }
    if (warp.races() != nullptr) {
      accesses.make_generic();
      accesses.write_shared(*memory.block,
                            static_cast<std::uint32_t>(memory.bytes - memory.block->shared.data()),
                            access.bytes());
    }
    std::array<RemoteStore::Element, kMaxElements> elements{};
    for (std::size_t i = 0; i < access.count; ++i) {
      elements.at(i) = {.value = values.at(i).lanes[lane],
                        .is_valid = (warp.valid(op.list[i]) & lane_bit(lane)) != 0};
    }
    warp.block().cluster().start(
        std::make_unique<RemoteStore>(warp, op, lane, *memory.block, memory, mbarrier, elements));
  });
  return Outcome::kDone;
}

}  // namespace

void decode_remote_store(Decoder& decoder) {
  Op& op = decoder.op();
  RemoteAccess access;
  Atomic operation = Atomic::kExchange;
  const bool is_reduction = decoder.mnemonic() == "red";
  if (is_reduction) {
    operation = static_cast<Atomic>(decoder.take_index_of(kAtomicNames));
    decoder.take("relaxed");
    decoder.take("cluster");
  } else {
    decoder.take("weak");
  }
  decoder.require("mbarrier::complete_tx::bytes");
  decoder.take("shared::cluster");
  if (!is_reduction) {
    access.count = decoder.take("v2") ? 2 : decoder.take("v4") ? 4 : 1;
  }
  const Type type = decoder.take_type();
  access.bits = static_cast<std::uint8_t>(bits_of(type));
  if (access.bits != 32 && access.bits != 64) {
    decoder.fail("unsupported type");
  }
  if (is_reduction) {
    access.reduction = atomic_code(type, operation, false).shared;
    const bool is_move =
        operation == Atomic::kExchange || operation == Atomic::kCompareAndSwap || is_float(type);
    if (access.reduction == nullptr || is_move) {
      decoder.fail("unsupported reduction");
    }
  }
  decoder.expect_operands(3);
  access.address = decoder.add_address(0);
  access.mbarrier = decoder.add_address(2);
  for (const syntax::Operand& part : decoder.parts(1, access.count)) {
    op.list.push_back(decoder.source(part, type));
  }
  op.details.set(access);
  op.code = &run_remote_store;
}

}  // namespace emu
