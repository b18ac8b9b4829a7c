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

/// Feeds libarchive. Its own file reader may seek past the end of a truncated archive and then see
/// a clean end; this one never skips beyond the end of the file, so that every loss is noticed. Its
/// own decompression drops what it was unpacking when the data breaks off; this one gives all of
/// that before it tells of the damage.
class ArchiveFeed {
 public:
  ArchiveFeed() = default;
  virtual ~ArchiveFeed() = default;
  ArchiveFeed(const ArchiveFeed&) = delete;
  ArchiveFeed& operator=(const ArchiveFeed&) = delete;

  /// Bytes of the whole archive, as it is stored.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual std::optional<io::FileStamp> stamp() const { return std::nullopt; }
  [[nodiscard]] virtual bool is_compressed() const { return false; }

  // Callbacks of libarchive of these names.
  virtual la_ssize_t read(archive* reader, const void** data) = 0;
  virtual la_int64_t skip(la_int64_t request) = 0;
};

/// Opens a file. Throws fovea::Error naming it when it cannot be opened or is not a regular file.
[[nodiscard]] std::unique_ptr<ArchiveFeed> feed_of_file(const std::string& path);

/// Feeds bytes in memory, which must outlive the feed.
[[nodiscard]] std::unique_ptr<ArchiveFeed> feed_of_memory(std::span<const std::byte> bytes);

}  // namespace fovea::pipeline
