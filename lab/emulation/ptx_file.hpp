// PTX files: their text, or what a file is that is something else.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace fovea::emulation {

/// Returns what is wrong with the beginning of a file that is no PTX, and what is wanted instead:
/// "is a cubin ..."; "" if it may be PTX.
[[nodiscard]] std::string why_no_ptx(std::string_view content);

/// Reads a PTX file. Throws fovea::Error, which names the file, if it is something else, or larger
/// than `max_bytes`.
[[nodiscard]] std::string read_ptx(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace fovea::emulation
