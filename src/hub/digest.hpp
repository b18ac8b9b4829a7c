// Hashes of files, as the hub names them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fovea::hub {

/// True for an etag that says what the content is: 64 hexadecimal digits (SHA-256, large files)
/// or 40 (git's blob SHA-1, small ones).
[[nodiscard]] bool is_content_etag(std::string_view etag);

/// The name of the hash that `etag` is: "SHA-256" or "git SHA-1".
[[nodiscard]] std::string_view hash_name(std::string_view etag);

/// The hash of `path`'s content in hexadecimal, of the kind that `etag` is.
[[nodiscard]] std::string hash_file(const std::filesystem::path& path, std::string_view etag);

}  // namespace fovea::hub
