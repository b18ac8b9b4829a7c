// Conversions of several numbers at once, which have a file of their own.
#pragma once

#include "emulator/program/decoder.hpp"

namespace emu {

/// Decodes a conversion to or from a pair of floats, whose types have been taken; false if it is
/// none.
bool decode_packed_conversion(Decoder& decoder, Type to, Type from);
/// Decodes cvt.pack; .pack has been taken.
void decode_pack(Decoder& decoder);

}  // namespace emu
