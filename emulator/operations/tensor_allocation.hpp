// Allocation of tensor memory.
#pragma once

#include <string_view>

namespace emu {

class Decoder;

/// tcgen05.alloc, dealloc, relinquish_alloc_permit: `what` has been taken.
void decode_tensor_allocation(Decoder& decoder, std::string_view what);

}  // namespace emu
