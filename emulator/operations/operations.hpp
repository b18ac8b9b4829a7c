// Table of operations: for each mnemonic, the function that decodes its family of instructions.
#pragma once

#include <span>
#include <string_view>

#include "emulator/program/decoder.hpp"

namespace emu {

std::span<const Operation> integer_operations();
std::span<const Operation> extended_operations();
std::span<const Operation> dot_product_operations();
std::span<const Operation> video_operations();
std::span<const Operation> bit_operations();
std::span<const Operation> bit_field_operations();
std::span<const Operation> float_operations();
std::span<const Operation> float_function_operations();
std::span<const Operation> float_bit_operations();
std::span<const Operation> comparison_operations();
std::span<const Operation> data_operations();
std::span<const Operation> conversion_operations();
std::span<const Operation> memory_operations();
std::span<const Operation> atomic_operations();
std::span<const Operation> warp_operations();
std::span<const Operation> barrier_operations();
std::span<const Operation> mbarrier_operations();
std::span<const Operation> cluster_operations();
std::span<const Operation> matrix_operations();
std::span<const Operation> wgmma_operations();
std::span<const Operation> tensor_operations();
std::span<const Operation> copy_operations();
std::span<const Operation> trap_operations();
std::span<const Operation> address_operations();
std::span<const Operation> stack_operations();
std::span<const Operation> hint_operations();
std::span<const Operation> system_operations();
std::span<const Operation> launch_control_operations();

/// Code of hints and of other operations that change nothing here.
Outcome run_nothing(Warp& warp, const Op& op, Lanes lanes);

/// Finds the row of a mnemonic; null if there is none.
const Operation* find_operation(std::string_view mnemonic);

/// Decoders for instructions that share a mnemonic with instructions of another file. The caller
/// has already taken the modifier that selects the decoder and passes it as `suboperation` or
/// `is_load`.
void decode_warp_barrier(Decoder& decoder);     // bar.warp
void decode_cluster_barrier(Decoder& decoder);  // barrier.cluster
void decode_bulk_copy(Decoder& decoder);        // cp.async.bulk and cp.reduce.async.bulk
void decode_remote_store(Decoder& decoder);     // st.async and red.async
bool decode_bulk_groups(Decoder& decoder);      // groups of cp.async.bulk; false: nothing was taken
void decode_tensor_allocation(Decoder& decoder,
                              std::string_view suboperation);  // tcgen05.alloc, ...
void decode_tensor_move(Decoder& decoder, bool is_load);       // tcgen05.ld and st
void decode_tensor_wait(Decoder& decoder, bool is_load);       // tcgen05.wait
void decode_tensor_product(Decoder& decoder);                  // tcgen05.mma
void decode_tensor_copy(Decoder& decoder);                     // tcgen05.cp
void decode_tensor_commit(Decoder& decoder);                   // tcgen05.commit

}  // namespace emu
