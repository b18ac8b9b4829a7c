// Decoders of the warp-level matrix instructions, which matrix.cpp lists.
#pragma once

#include "emulator/program/decoder.hpp"

namespace emu {

void decode_mma(Decoder& decoder);
void decode_wmma_product(Decoder& decoder);             // wmma.mma
void decode_wmma_move(Decoder& decoder, bool is_load);  // wmma.load and store
void decode_ldmatrix(Decoder& decoder);
void decode_stmatrix(Decoder& decoder);
void decode_movmatrix(Decoder& decoder);

}  // namespace emu
