// Dispatch of tcgen05 instructions to their decoders, and the tcgen05 fences (PTX ISA 9.7.16).
#include <array>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

Outcome run_fence_before(Warp& warp, const Op& /*op*/, Lanes /*lanes*/) {
  warp.notify_races([&](auto& races, auto actor) { races.tensor_fence_before(actor); });
  return Outcome::kDone;
}

Outcome run_fence_after(Warp& warp, const Op& /*op*/, Lanes /*lanes*/) {
  warp.notify_races([&](auto& races, auto actor) { races.tensor_fence_after(actor); });
  return Outcome::kDone;
}

void decode_tcgen05(Decoder& decoder) {
  const std::string_view suboperation = decoder.take_one_of(
      {"alloc", "dealloc", "relinquish_alloc_permit", "ld", "st", "wait::ld", "wait::st",
       "fence::before_thread_sync", "fence::after_thread_sync", "mma", "cp", "commit"});
  if (suboperation == "alloc" || suboperation == "dealloc" ||
      suboperation == "relinquish_alloc_permit") {
    decode_tensor_allocation(decoder, suboperation);
  } else if (suboperation == "ld" || suboperation == "st") {
    decode_tensor_move(decoder, suboperation == "ld");
  } else if (suboperation == "wait::ld" || suboperation == "wait::st") {
    decode_tensor_wait(decoder, suboperation == "wait::ld");
  } else if (suboperation == "mma") {
    decode_tensor_product(decoder);
  } else if (suboperation == "cp") {
    decode_tensor_copy(decoder);
  } else if (suboperation == "commit") {
    decode_tensor_commit(decoder);
  } else {
    decoder.expect_operands(0);
    decoder.op().code =
        suboperation == "fence::before_thread_sync" ? &run_fence_before : &run_fence_after;
  }
}

constexpr std::array kOperations = {Operation{"tcgen05", &decode_tcgen05}};

}  // namespace

std::span<const Operation> tensor_operations() {
  return kOperations;
}

}  // namespace emu
