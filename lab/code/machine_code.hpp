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
[[nodiscard]] std::vector<std::byte> instructions_of(std::span<const std::byte> cubin,
                                                     std::string_view kernel);

/// Splits a listing of several kernels in sequence, whose instructions take `sizes` bytes each.
[[nodiscard]] std::vector<std::string_view> split_listing(std::string_view listing,
                                                          std::span<const std::size_t> sizes);

/// Returns nvdisasm's listing of a kernel, with labels; -gi adds the source lines.
[[nodiscard]] std::string disassemble(const gpu::KernelImage& image,
                                      std::vector<std::string> options = {"-c"});

/// Returns nvdisasm's listing of all kernels in a cubin; error messages call it `what`.
[[nodiscard]] std::string disassemble(std::span<const std::byte> cubin,
                                      std::vector<std::string> options, std::string_view what);
/// Returns the part of a listing that belongs to one kernel. Throws fovea::Error if there is none.
[[nodiscard]] std::string_view listing_of(std::string_view listing, std::string_view kernel);

/// Returns the bare instructions of kernels for one architecture, with a single run of nvdisasm:
/// starting it takes nearly half a second, each kernel about a thirtieth of that.
[[nodiscard]] std::vector<std::string> disassemble(std::span<const gpu::KernelImage* const> images);

}  // namespace fovea::lab
