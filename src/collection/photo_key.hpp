// Keys that identify photos: hashes of their absolute names or of their contents.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace fovea::collection {

/// The first half of the SHA-256 of a name, or of the bytes of an encoded image.
using Key = std::array<std::uint64_t, 2>;

/// Returns the absolute name of an input. Relative names are resolved against `working_folder`,
/// which is absolute and free of links; without a working folder, they stay relative. "./", doubled
/// slashes and leading "../" are removed; later "../" stay, because they may follow a link.
[[nodiscard]] std::string absolute_name(std::string_view working_folder, std::string_view name);

/// Returns the key of an absolute name.
[[nodiscard]] Key name_key(std::string_view absolute);

/// Returns the key of contents from their SHA-256 in hexadecimal. Throws fovea::Error when the text
/// is malformed.
[[nodiscard]] Key content_key(std::string_view sha256);

}  // namespace fovea::collection
