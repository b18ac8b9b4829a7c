// Hashes of files in the form of the hub's etags.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace fovea::hub {

/// True for an etag that is a hash of the content: 64 hexadecimal digits (SHA-256, for large files)
/// or 40 (git's blob SHA-1, for small ones).
[[nodiscard]] bool is_content_etag(std::string_view etag);

/// The name of the hash function of `etag`: "SHA-256" or "git SHA-1".
[[nodiscard]] std::string_view hash_name(std::string_view etag);

/// Returns the hash of the content of `path` in hexadecimal, by the hash function of `etag`.
/// `alive` is called regularly; an exception from it ends the work.
[[nodiscard]] std::string hash_file(const std::filesystem::path& path, std::string_view etag,
                                    const std::function<void()>& alive);

}  // namespace fovea::hub
