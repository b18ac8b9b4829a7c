// ArchiveFeed: the bytes of a tar archive for libarchive, decompressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <archive.h>

#include "io/descriptor.hpp"

namespace fovea::pipeline {

/// Supplies libarchive with data. Its own file reader may seek past the end of a truncated archive
/// and then report a regular end; a feed never skips past the end of the file, so that truncation
/// is detected. Its own decompression drops buffered data when a stream is cut short; a feed passes
/// on all decompressed data before it reports the damage.
class ArchiveFeed {
 public:
  ArchiveFeed() = default;
  virtual ~ArchiveFeed() = default;
  ArchiveFeed(const ArchiveFeed&) = delete;
  ArchiveFeed& operator=(const ArchiveFeed&) = delete;

  /// Returns the stored size of the archive in bytes.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual std::optional<io::FileStamp> stamp() const { return std::nullopt; }
  [[nodiscard]] virtual bool is_compressed() const { return false; }

  // Implement libarchive's callbacks of the same names.
  virtual la_ssize_t read(archive* reader, const void** data) = 0;
  virtual la_int64_t skip(la_int64_t request) = 0;
};

/// Opens a file. Throws fovea::Error naming it when it cannot be opened or is not a regular file.
[[nodiscard]] std::unique_ptr<ArchiveFeed> feed_of_file(const std::string& path);

/// Feeds bytes in memory, which must outlive the feed.
[[nodiscard]] std::unique_ptr<ArchiveFeed> feed_of_memory(std::span<const std::byte> bytes);

}  // namespace fovea::pipeline
