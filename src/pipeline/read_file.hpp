// Reading encoded images from files that may be anything.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fovea::pipeline {

/// Larger files and archive members are refused: no image of an acceptable size needs as much.
inline constexpr std::size_t kMaxEncodedBytes = std::size_t{1} << 30;

/// Reads the whole file into `bytes`. Throws fovea::Error with the reason, without the name, when
/// it cannot be read, is no regular file (never blocks on a pipe or device), or is empty or larger
/// than kMaxEncodedBytes.
void read_file(const std::string& path, std::vector<std::byte>& bytes);

}  // namespace fovea::pipeline
