// Downloads a file from the hub to a blob in the cache; resumes, retries and verifies downloads.
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

/// Callbacks by which download() reports its progress.
struct DownloadReport {
  /// Called with the number of bytes in the local file, and the number just received. The first
  /// decreases when the download has to start again.
  std::function<void(std::uint64_t present, std::uint64_t received)> bytes;
  /// Called with a message for the user.
  std::function<void(const std::string&)> notice;
  /// Called at least every second during waits; an exception from it ends the download.
  std::function<void()> alive;
};

/// Runs `request`. On TransientError it waits and tries again, at most `retries` times.
void with_retries(int retries, const DownloadReport& report, const std::function<void()>& request);

/// Returns the number of local bytes of `blob`, complete or not.
[[nodiscard]] std::uint64_t local_bytes(const std::filesystem::path& blob);

/// Fetches `file` to `blob` + ".incomplete", resuming where an earlier download stopped; checks its
/// size and hash; renames it to `blob`. A file that fails the checks is deleted. Throws
/// fovea::Error.
void download(HttpClient& client, const RemoteFile& file, const std::filesystem::path& blob,
              int retries, const DownloadReport& report);

}  // namespace fovea::hub
