// Requests to cancel a cluster of the grid that has not started, so that the block which asks does
// its work: clusterlaunchcontrol.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/exact_number.hpp"
#include "emulator/operations/mbarrier.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

constexpr std::size_t kResponseBytes = 16;
/// A request is refused by chance, once in as many, though there is a cluster that could be
/// cancelled: PTX does not promise that there is none left when a request has failed.
constexpr unsigned kRefusedOneIn = 8;

/// Response to a request, which is opaque in PTX: the ctaid of the cancelled cluster's first block,
/// and one of two marks.
struct Response {
  static constexpr std::uint32_t kCancelled = 0xC1A57E21;
  static constexpr std::uint32_t kRefused = 0xC1A57E20;

  std::array<std::uint32_t, 3> first{};
  std::uint32_t mark = kRefused;
};
static_assert(sizeof(Response) == kResponseBytes);

// Slots: the response's address, the mbarrier's.
struct CancelRequest {
  AddressOperand response{};
  AddressOperand mbarrier{};
  MemorySpace space = MemorySpace::kGeneric;
  bool is_multicast = false;
};

// Takes the cluster away from the grid at the first step, and writes the response in one block
// per step.
class Cancellation : public AsyncWork {
 public:
  /// The response and the mbarrier are at these offsets in each of the blocks.
  Cancellation(Warp& warp, const Op& op, int lane, std::vector<std::uint32_t> ranks,
               std::uint32_t response, std::uint32_t mbarrier)
      : AsyncWork(warp, op, lane_bit(lane)),
        lane_(lane),
        ranks_(std::move(ranks)),
        offset_(response),
        mbarrier_(mbarrier) {}

  bool step(std::mt19937_64& random) override {
    if (!std::exchange(is_decided_, true)) {
      decide(random);
    }
    std::swap(ranks_[random() % ranks_.size()], ranks_.back());
    Block& block = warp().block().cluster().blocks()[ranks_.back()];
    ranks_.pop_back();
    std::memcpy(block.shared.data() + offset_, &response_, kResponseBytes);
    std::memset(block.is_shared_written.data() + offset_, 1, kResponseBytes);
    Mbarrier& mbarrier = find_mbarrier(warp(), op(), lane_, MemorySpace::kClusterShared,
                                       block.shared_base() + mbarrier_);
    mbarrier.counter = {&warp(), &op(), lanes()};
    warp().require(mbarrier.complete_copy(kResponseBytes), FindingKind::kBarrierMisuse, op(),
                   lanes());
    return ranks_.empty();
  }

  [[nodiscard]] bool needs(const Block& block) const override {
    return std::ranges::find(ranks_, block.rank()) != ranks_.end();
  }

 private:
  void decide(std::mt19937_64& random) {
    Grid& grid = warp().block().grid();
    if (grid.started_blocks < grid.block_count() && random() % kRefusedOneIn != 0) {
      response_ = {.first = grid.next_cluster(), .mark = Response::kCancelled};
      grid.cancel_next_cluster();
    }
  }

  int lane_;
  std::vector<std::uint32_t> ranks_;  // of the blocks that await the response
  std::uint32_t offset_;
  std::uint32_t mbarrier_;
  bool is_decided_ = false;
  Response response_{};
};

// Returns the offset of bytes in the shared memory of the block itself, where they must lie.
std::uint32_t own_offset(Warp& warp, const Op& op, int lane, const AddressOperand& operand,
                         std::size_t bytes) {
  const std::uint64_t address = address_of(warp, operand, lane);
  static_cast<void>(resolve_own_shared(warp, op, lane, op.get<CancelRequest>().space, address,
                                       bytes, FindingKind::kIllegalOperand));
  return static_cast<std::uint32_t>(address) & kOffsetMask;
}

void start_request(Warp& warp, const Op& op, int lane) {
  const CancelRequest& request = op.get<CancelRequest>();
  Cluster& cluster = warp.block().cluster();
  const std::uint32_t offset = own_offset(warp, op, lane, request.response, kResponseBytes);
  const std::uint32_t mbarrier_offset =
      own_offset(warp, op, lane, request.mbarrier, kMbarrierBytes);
  std::vector<std::uint32_t> ranks = {warp.block().rank()};
  if (request.is_multicast) {
    ranks.resize(cluster.blocks().size());
    std::iota(ranks.begin(), ranks.end(), 0U);
  }
  for (const std::uint32_t rank : ranks) {
    Block& block = cluster.blocks()[rank];
    const Memory target = resolve(warp, op, lane, MemorySpace::kClusterShared,
                                  block.shared_base() + offset, kResponseBytes);
    Mbarrier& awaited = find_mbarrier(warp, op, lane, MemorySpace::kClusterShared,
                                      block.shared_base() + mbarrier_offset);
    // A block alone runs with a barrier behind the initialisation, as NVIDIA's guide has it.
    require_initialized(warp, op, lane_bit(lane), awaited, cluster.blocks().size() > 1);
    AsyncAccesses(warp, op, lane_bit(lane), awaited).write_shared(block, offset, kResponseBytes);
    target.set_written(0, kResponseBytes, false);
    awaited.begin_copy(kResponseBytes);
  }
  cluster.start(
      std::make_unique<Cancellation>(warp, op, lane, std::move(ranks), offset, mbarrier_offset));
}

Outcome run_request(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_valid(op.slots[0], op, lanes, "the response's address");
  warp.require_valid(op.slots[1], op, lanes, "the mbarrier's address");
  if (warp.block().has_seen_refusal) {
    warp.stop(FindingKind::kIllegalOperand, op, lanes,
              "the block has seen that a request failed; what another one does is undefined");
  }
  for_each_lane(lanes, [&](int lane) { start_request(warp, op, lane); });
  return Outcome::kDone;
}

// Calls use(lane, response) for each lane with a response. Reports values that are none, which
// count as refusals.
template <typename Use>
void for_each_response(Warp& warp, const Op& op, Slot slot, Lanes lanes, Use&& use) {
  const auto values = warp.read<UInt128>(slot);
  Lanes others = 0;
  for_each_lane(lanes & warp.valid(slot), [&](int lane) {
    const auto response = std::bit_cast<Response>(values.lanes[lane]);
    const bool is_response =
        response.mark == Response::kCancelled || response.mark == Response::kRefused;
    others |= is_response ? 0 : lane_bit(lane);
    use(lane, is_response ? response : Response{});
  });
  if (others != 0) {
    warp.report(FindingKind::kIllegalOperand, op, others,
                "the value is no response of clusterlaunchcontrol.try_cancel");
  }
}

// Slots: the predicate, the response.
Outcome run_is_cancelled(Warp& warp, const Op& op, Lanes lanes) {
  Lanes cancelled = 0;
  for_each_response(warp, op, op.slots[1], lanes, [&](int lane, const Response& response) {
    if (response.mark == Response::kCancelled) {
      cancelled |= lane_bit(lane);
    } else {
      warp.block().has_seen_refusal = true;
    }
  });
  warp.write_predicate(op.slots[0], cancelled, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

// Slots: the response. `list`: destinations of x, y, z and of a fourth word, which nothing defines;
// kNoSlot for those that are not asked for.
Outcome run_first_ctaid(Warp& warp, const Op& op, Lanes lanes) {
  std::array<Vec<std::uint32_t>, 4> words{};
  Lanes valid = 0;  // what was not cancelled has no ctaid
  for_each_response(warp, op, op.slots[0], lanes, [&](int lane, const Response& response) {
    for (std::size_t i = 0; i < response.first.size(); ++i) {
      words.at(i).lanes[lane] = response.first.at(i);
    }
    valid |= response.mark == Response::kCancelled ? lane_bit(lane) : 0;
  });
  for (std::size_t i = 0; i < op.list.size(); ++i) {
    if (op.list[i] != kNoSlot) {
      warp.write(op.list[i], words.at(i), lanes, i < 3 ? valid : 0);
    }
  }
  return Outcome::kDone;
}

void decode_request(Decoder& decoder) {
  decoder.require("async");
  CancelRequest request;
  if (decoder.take("shared::cta")) {
    request.space = MemorySpace::kShared;
  }
  decoder.require("mbarrier::complete_tx::bytes");
  request.is_multicast = decoder.take("multicast::cluster::all");
  decoder.require("b128");
  decoder.expect_operands(2);
  request.response = decoder.add_address(0);
  request.mbarrier = decoder.add_address(1);
  decoder.op().details.set(request);
  decoder.op().code = &run_request;
}

void decode_first_ctaid(Decoder& decoder) {
  constexpr std::array<std::string_view, 3> kDimensions = {
      "get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"};
  Op& op = decoder.op();
  if (decoder.take("get_first_ctaid")) {
    decoder.require("v4");
    for (const syntax::Operand& word : decoder.parts(0, 4)) {
      if (word.kind == syntax::OperandKind::kSink) {
        op.list.push_back(kNoSlot);
      } else {
        decoder.add_result(word, 32);
      }
    }
  } else {
    op.list.resize(decoder.take_index_of(kDimensions), kNoSlot);
    decoder.add_result(decoder.operand(0), 32);
  }
  decoder.require("b32");
  decoder.add(decoder.source(1, Type::kB128));
  op.code = &run_first_ctaid;
}

void decode_query(Decoder& decoder) {
  decoder.expect_operands(2);
  decoder.require("b128");
  if (!decoder.take("is_canceled")) {
    decode_first_ctaid(decoder);
    return;
  }
  decoder.require("pred");
  decoder.add(decoder.destination(0, 1));
  decoder.add(decoder.source(1, Type::kB128));
  decoder.op().code = &run_is_cancelled;
}

void decode_launch_control(Decoder& decoder) {
  if (decoder.take_one_of({"try_cancel", "query_cancel"}) == "try_cancel") {
    decode_request(decoder);
  } else {
    decode_query(decoder);
  }
}

constexpr std::array kOperations = {
    Operation{"clusterlaunchcontrol", &decode_launch_control},
};

}  // namespace

std::span<const Operation> launch_control_operations() {
  return kOperations;
}

}  // namespace emu
