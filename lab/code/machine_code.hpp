// Disassembles kernels with nvdisasm. Throws fovea::Error if nvdisasm is not found.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/kernel_image.hpp"

namespace fovea::lab {

/// Returns the instruction bytes of a kernel in a cubin; empty if there is no such kernel. Throws
/// fovea::Error if the cubin is not an ELF file.
[[nodiscard]] std::vector<std::byte> kernel_instructions(std::span<const std::byte> cubin,
                                                         std::string_view kernel);

/// Splits a listing of several kernels in sequence into one per kernel; `sizes` are the kernels'
/// sizes in bytes.
[[nodiscard]] std::vector<std::string_view> split_listing(std::string_view listing,
                                                          std::span<const std::size_t> sizes);

/// Returns nvdisasm's listing of a kernel, with labels; -gi adds the source lines.
[[nodiscard]] std::string disassemble(const gpu::KernelImage& image,
                                      std::vector<std::string> options = {"-c"});

/// Returns nvdisasm's listing of all kernels in a cubin; `what` is the cubin's name in error
/// messages.
[[nodiscard]] std::string disassemble(std::span<const std::byte> cubin,
                                      std::vector<std::string> options, std::string_view what);
/// Returns the part of a listing that belongs to one kernel. Throws fovea::Error if there is none.
[[nodiscard]] std::string_view kernel_listing(std::string_view listing, std::string_view kernel);

/// Returns the listings of kernels for one architecture, from a single run of nvdisasm: its start
/// takes nearly half a second, about 30 times as long as a kernel.
[[nodiscard]] std::vector<std::string> disassemble(std::span<const gpu::KernelImage* const> images);

}  // namespace fovea::lab
