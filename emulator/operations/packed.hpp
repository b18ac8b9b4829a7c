// What integer and float instructions of one name share.
#pragma once

#include "emulator/program/decoder.hpp"

namespace emu {

/// Decodes add, sub, mul, div, min, max, neg or abs if its type is a float or a pair of them; else
/// does nothing and returns false.
bool decode_packed_or_float(Decoder& decoder);

}  // namespace emu
