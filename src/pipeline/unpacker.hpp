// Unpacker: decompresses gzip, bzip2, xz and zstd, one stream at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace fovea::pipeline {

/// Unpacks one stream, such as a member of a gzip file or a frame of a zstd file.
class Unpacker {
 public:
  Unpacker() = default;
  virtual ~Unpacker() = default;
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  /// Unpacks as much of `in` as fits into `out`, and advances both. Returns true at the end of the
  /// stream. Throws fovea::Error when the data is damaged; the data before that is in `out`.
  virtual bool step(std::span<const std::byte>& in, std::span<std::byte>& out) = 0;

  /// Returns the name of the format.
  [[nodiscard]] virtual const char* format() const = 0;
};

/// Returns an unpacker for a stream that begins with these bytes; null when the format is unknown.
[[nodiscard]] std::unique_ptr<Unpacker> make_unpacker(std::span<const std::byte> begin);

}  // namespace fovea::pipeline
