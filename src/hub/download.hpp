// One file of the hub into one blob of the cache: resumed, retried, verified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "hub/http.hpp"

namespace fovea::hub {

/// A file as the hub describes it.
struct RemoteFile {
  std::string name;  // "model.safetensors"
  std::string url;
  std::string etag;  // the hash of its content, see is_content_etag
  std::uint64_t size = 0;
};

/// What download() tells while it works.
struct DownloadReport {
  /// Bytes of the file that are here now (they can become fewer, when a server makes the download
  /// start again), and bytes just received.
  std::function<void(std::uint64_t here, std::uint64_t received)> bytes;
  /// Something a person should know.
  std::function<void(const std::string&)> notice;
};

/// Runs `request`; on TransientError waits and tries again, at most `retries` times.
void with_retries(int retries, const DownloadReport& report, const std::function<void()>& request);

/// Bytes of `blob` that are already here, complete or not.
[[nodiscard]] std::uint64_t bytes_here(const std::filesystem::path& blob);

/// Fetches `file` to `blob` + ".incomplete", going on where an earlier download stopped; checks
/// size and hash; renames it to `blob`. What fails the checks is deleted. Throws fovea::Error.
void download(HttpClient& client, const RemoteFile& file, const std::filesystem::path& blob,
              int retries, const DownloadReport& report);

}  // namespace fovea::hub
