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

/// Supplies libarchive with data. The file reader of libarchive may seek past the end of a
/// truncated archive and then report a regular end; a feed never skips past the end of the file, so
/// that truncation is detected. The decompression of libarchive drops buffered data when a stream
/// is cut short; a feed passes on all decompressed data before it reports the damage.
class ArchiveFeed {
 public:
  ArchiveFeed() = default;
  virtual ~ArchiveFeed() = default;
  ArchiveFeed(const ArchiveFeed&) = delete;
  ArchiveFeed& operator=(const ArchiveFeed&) = delete;

  /// Returns the size of the archive as stored, before decompression, in bytes.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual std::optional<io::FileStamp> stamp() const { return std::nullopt; }
  [[nodiscard]] virtual bool is_compressed() const { return false; }

  // The callbacks of libarchive: archive_read_callback and archive_skip_callback.
  virtual la_ssize_t read(archive* reader, const void** data) = 0;
  virtual la_int64_t skip(la_int64_t request) = 0;
};

/// Returns a feed of a file. Throws fovea::Error naming it when it cannot be opened or is not a
/// regular file.
[[nodiscard]] std::unique_ptr<ArchiveFeed> file_feed(const std::string& path);

/// Returns a feed of bytes in memory, which must outlive it.
[[nodiscard]] std::unique_ptr<ArchiveFeed> memory_feed(std::span<const std::byte> bytes);

}  // namespace fovea::pipeline
