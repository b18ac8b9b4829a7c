// Table of the warp-level matrix instructions.
#include <array>

#include "emulator/operations/matrix_operations.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

void decode_wmma(Decoder& decoder) {
  if (decoder.take("mma")) {
    decode_wmma_product(decoder);
  } else {
    const bool is_load = decoder.take("load");
    if (!is_load) {
      decoder.require("store");
    }
    decode_wmma_move(decoder, is_load);
  }
}

constexpr std::array kOperations = {
    Operation{"mma", &decode_mma},
    Operation{"wmma", &decode_wmma},
    Operation{"ldmatrix", &decode_ldmatrix},
    Operation{"stmatrix", &decode_stmatrix},
    Operation{"movmatrix", &decode_movmatrix},
};

}  // namespace

std::span<const Operation> matrix_operations() {
  return kOperations;
}

}  // namespace emu
