// The kinds of files that folders and archives hold, by their names.
#pragma once

#include <string_view>

namespace fovea::pipeline {

// A kind is a word for people, such as "video" or "documents", and a key of manifest.json. The
// table of kinds by endings is in file_kinds.cpp, and for people in docs/output.md.

inline constexpr std::string_view kImageKind = "image";        // read; the others are left out
inline constexpr std::string_view kArchiveKind = "archives";   // read when they are named
inline constexpr std::string_view kHiddenKind = "hidden";      // a name that begins with a dot
inline constexpr std::string_view kExcludedKind = "excluded";  // by --exclude or --include
inline constexpr std::string_view kThumbnailKind = "thumbnails";
inline constexpr std::string_view kDeletedKind = "deleted";  // in a recycle bin
inline constexpr std::string_view kSystemKind = "system";  // what systems keep beside users' files
// A link to a folder that is read by another name.
inline constexpr std::string_view kLinkedKind = "linked folders";
inline constexpr std::string_view kOtherKind = "other";

/// The kind of a file with this name (without folders), in any case of letters.
[[nodiscard]] std::string_view kind_of(std::string_view name);

/// Returns the kind for all files in a folder with this name, if it is a system's folder for
/// thumbnails, deleted files or the like; otherwise "".
[[nodiscard]] std::string_view kind_of_folder(std::string_view name);

/// Whether a name ends like that of an archive that is an input.
[[nodiscard]] bool has_tar_extension(std::string_view name);

}  // namespace fovea::pipeline
