// Copies of the TMA as instructions: cp.async.bulk.
#pragma once

#include "emulator/program/decoder.hpp"

namespace emu {

/// Decodes what follows cp.async.bulk.
void decode_bulk_copy(Decoder& decoder);

}  // namespace emu
