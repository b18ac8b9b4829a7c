// PhotoKey: what tells photos apart by their names, whatever folder a job ran in.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace fovea::collection {

/// The first half of a SHA-256: of a name, or of the bytes of an encoded image.
using Key = std::array<std::uint64_t, 2>;

/// The name of an input as an absolute one: relative names are relative to `working_folder`, which
/// is absolute and without links; "./", "../" at the beginning and doubled slashes are resolved.
/// Later "../" stay, because what is before them may be a link. Without a working folder a relative
/// name stays one.
[[nodiscard]] std::string absolute_name(std::string_view working_folder, std::string_view name);

/// The key of an absolute name.
[[nodiscard]] Key key_of(std::string_view absolute);

/// The key of contents from their SHA-256 in hexadecimal. Throws fovea::Error on another text.
[[nodiscard]] Key content_key(std::string_view sha256);

}  // namespace fovea::collection
