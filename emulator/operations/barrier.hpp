// Barriers of different kinds that share a mnemonic.
#pragma once

namespace emu {

class Decoder;

/// barrier.cluster
void decode_cluster_barrier(Decoder& decoder);

}  // namespace emu
