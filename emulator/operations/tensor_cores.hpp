// What a thread makes tensor cores do on tensor memory.
#pragma once

namespace emu {

class Decoder;

/// tcgen05.mma, cp and commit: each has been taken.
void decode_tensor_product(Decoder& decoder);
void decode_tensor_copy(Decoder& decoder);
void decode_tensor_commit(Decoder& decoder);

}  // namespace emu
