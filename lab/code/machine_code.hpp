// Disassembles kernels with nvdisasm, which has to be on the PATH: fovea::Error says so.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/kernel_image.hpp"

namespace fovea::lab {

/// The instructions of one of a cubin's kernels; none when it is not there. Throws fovea::Error
/// when it is no ELF file.
[[nodiscard]] std::vector<std::byte> instructions_of(std::span<const std::byte> cubin,
                                                     std::string_view kernel);

/// The lines of a listing by which of several kernels they belong to, whose instructions were
/// `sizes` bytes large and lay one after the other.
[[nodiscard]] std::vector<std::string_view> split_listing(std::string_view listing,
                                                          std::span<const std::size_t> sizes);

/// What nvdisasm prints of a kernel, labels included; -gi adds the lines of the sources.
[[nodiscard]] std::string disassemble(const gpu::KernelImage& image,
                                      std::vector<std::string> options = {"-c"});

/// What nvdisasm prints of all kernels of a cubin; `what` names it in errors.
[[nodiscard]] std::string disassemble(std::span<const std::byte> cubin,
                                      std::vector<std::string> options, std::string_view what);
/// The part of it that is one kernel's. Throws fovea::Error when there is none.
[[nodiscard]] std::string_view listing_of(std::string_view listing, std::string_view kernel);

/// The instructions alone of kernels of one architecture, by one run of nvdisasm: it takes near
/// half a second before it looks at the first, and a thirtieth for one of them.
[[nodiscard]] std::vector<std::string> disassemble(std::span<const gpu::KernelImage* const> images);

}  // namespace fovea::lab
