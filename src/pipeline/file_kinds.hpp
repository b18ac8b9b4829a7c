// Kinds of files in folders and archives, determined by their names.
#pragma once

#include <string_view>

namespace fovea::pipeline {

// A kind is a word that is shown to users, such as "video" or "documents", and a key in
// manifest.json. The table of kinds by extension is in file_kinds.cpp; docs/output.md documents it.

inline constexpr std::string_view kImageKind = "image";        // read; all others are left out
inline constexpr std::string_view kArchiveKind = "archives";   // read only as a named input
inline constexpr std::string_view kHiddenKind = "hidden";      // names that begin with a dot
inline constexpr std::string_view kExcludedKind = "excluded";  // by --exclude or --include
inline constexpr std::string_view kThumbnailKind = "thumbnails";
inline constexpr std::string_view kDeletedKind = "deleted";  // in a recycle bin
inline constexpr std::string_view kSystemKind = "system";    // created by operating systems
// Links to folders that are read under another path.
inline constexpr std::string_view kLinkedKind = "linked folders";
inline constexpr std::string_view kOtherKind = "other";

/// Returns the kind of a file with this name (without folders). The case of letters is ignored.
[[nodiscard]] std::string_view file_kind(std::string_view name);

/// Returns the kind of all files in a folder with this name when operating systems use it for
/// thumbnails, deleted files or the like; otherwise "".
[[nodiscard]] std::string_view folder_kind(std::string_view name);

/// Returns whether a name has the extension of an archive that can be an input.
[[nodiscard]] bool has_tar_extension(std::string_view name);

}  // namespace fovea::pipeline
