// mma.sync.m8n8k4 of binary16: four products of 8 x 8 x 4, each by two groups of four lanes.
#pragma once

#include "emulator/program/decoder.hpp"

namespace emu {

struct QuadPairs {
  bool is_a_row = true;
  bool is_b_column = true;
  bool is_c_short = false;  // C has binary16
  bool is_d_short = false;
};

/// Adds the operands D, A, B and C, and sets the operation's code.
void decode_quad_pairs(Decoder& decoder, const QuadPairs& product);

}  // namespace emu
