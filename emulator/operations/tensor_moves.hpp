// Between registers and tensor memory.
#pragma once

namespace emu {

class Decoder;

/// tcgen05.ld or st: that has been taken.
void decode_tensor_move(Decoder& decoder, bool is_load);
/// tcgen05.wait::ld or ::st: likewise.
void decode_tensor_wait(Decoder& decoder, bool is_load);

}  // namespace emu
