// Downloads one file of the hub into one blob of the cache: resumed, retried, verified.
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

/// What download() reports while it works.
struct DownloadReport {
  /// Called with the bytes of the file that are here now, and the bytes just received. The first
  /// number becomes smaller when a server makes the download start again.
  std::function<void(std::uint64_t here, std::uint64_t received)> bytes;
  /// Called with a message for the user.
  std::function<void(const std::string&)> notice;
  /// Called at least every second while something is waited for; what it throws ends the download.
  std::function<void()> alive;
};

/// Runs `request`. On TransientError it waits and tries again, at most `retries` times.
void with_retries(int retries, const DownloadReport& report, const std::function<void()>& request);

/// The number of bytes of `blob` that are already here, complete or not.
[[nodiscard]] std::uint64_t bytes_here(const std::filesystem::path& blob);

/// Fetches `file` to `blob` + ".incomplete", resuming where an earlier download stopped; checks its
/// size and hash; renames it to `blob`. A file that fails the checks is deleted. Throws
/// fovea::Error.
void download(HttpClient& client, const RemoteFile& file, const std::filesystem::path& blob,
              int retries, const DownloadReport& report);

}  // namespace fovea::hub
