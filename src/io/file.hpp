// File: a regular file that is read at arbitrary offsets, and read_small_file().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "io/descriptor.hpp"

namespace fovea::io {

/// A regular file, open for reading. It is read by pread(2) and not memory-mapped, so that a file
/// that shrinks or a disk that fails causes an error and not a SIGBUS. Move-only; several threads
/// may read at once.
class File {
 public:
  /// The size and modification time of a file, which show whether it has changed.
  struct Version {
    std::uint64_t bytes = 0;
    std::int64_t seconds = 0;  // of the modification time
    std::int64_t nanoseconds = 0;

    friend bool operator==(const Version&, const Version&) = default;
  };

  /// Opens a file without ever waiting, even if `path` names a pipe. Throws fovea::Error naming the
  /// path when it cannot be opened or is not a regular file.
  explicit File(const std::filesystem::path& path);
  /// Opens a file again; also throws when it has changed since it had the version `expected`.
  File(const std::filesystem::path& path, const Version& expected);

  /// Takes an open file; `path` is its name in messages.
  File(OpenedFile opened, std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The size of the file when it was opened.
  [[nodiscard]] std::uint64_t size() const { return version_.bytes; }
  [[nodiscard]] const Version& version() const { return version_; }

  /// Fills `out` with the bytes from `offset` on. Throws fovea::Error naming the path when they
  /// cannot be read, also because the file has become shorter since it was opened.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

  /// Reads up to `out.size()` bytes from `offset` on; fewer at the end of the file alone. Returns
  /// how many. Throws as read_at() does.
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  Version version_;
};

/// Whether `path` exists. Also true when that cannot be determined (a link to itself, a folder
/// without search permission): opening it then fails with the reason.
[[nodiscard]] bool exists(const std::filesystem::path& path);

/// Largest file that is read whole as text: configurations, manifests, indexes of weight files.
/// The largest ones on the hub are under 200 kB.
inline constexpr std::size_t kMaxSmallFileBytes = std::size_t{4} << 20;

/// Returns the content of `path`. Throws fovea::Error naming it when it cannot be read, is not a
/// regular file, or is larger than `max_bytes`.
[[nodiscard]] std::string read_small_file(const std::filesystem::path& path,
                                          std::size_t max_bytes = kMaxSmallFileBytes);

}  // namespace fovea::io
