// Table of all operations: a row per mnemonic, a function per family of instructions.
#pragma once

#include <span>
#include <string_view>

#include "emulator/program/decoder.hpp"

namespace emu {

std::span<const Operation> integer_operations();
std::span<const Operation> bit_operations();
std::span<const Operation> float_operations();
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

/// Finds the row of a mnemonic; null: there is none.
const Operation* find_operation(std::string_view mnemonic);

}  // namespace emu
