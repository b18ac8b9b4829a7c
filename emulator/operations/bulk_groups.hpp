// Groups of bulk copies as instructions: cp.async.bulk.commit_group and wait_group.
#pragma once

#include "emulator/program/decoder.hpp"

namespace emu {

/// Decodes what follows cp.async.bulk; false, and nothing is taken, when it is about no group.
bool decode_bulk_groups(Decoder& decoder);

}  // namespace emu
