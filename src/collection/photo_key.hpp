// Keys of photos: hashes of their absolute names or of their contents.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace fovea::collection {

/// The first half of a SHA-256: of a name, or of the bytes of an encoded image.
using Key = std::array<std::uint64_t, 2>;

/// Returns the absolute name of an input: relative names are relative to `working_folder`, which
/// is absolute and without links; "./", "../" at the beginning and doubled slashes are resolved.
/// Later "../" stay, because they may follow a link. Without a working folder, relative names are
/// returned unchanged.
[[nodiscard]] std::string absolute_name(std::string_view working_folder, std::string_view name);

/// The key of an absolute name.
[[nodiscard]] Key key_of(std::string_view absolute);

/// Returns the key for contents with this SHA-256 in hexadecimal. Throws fovea::Error for other
/// text.
[[nodiscard]] Key content_key(std::string_view sha256);

}  // namespace fovea::collection
