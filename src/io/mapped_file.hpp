// MappedFile: a whole file, read-only, memory-mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace fovea::io {

/// Maps a regular file read-only. Move-only; unmapped on destruction. Throws fovea::Error naming
/// the path when the file cannot be opened, is no regular file, or cannot be mapped.
class MappedFile {
 public:
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Tells the kernel that the pages of `part` (a sub-range of bytes()) are no longer needed, so
  /// that they stop counting as this process's memory. They are read again when touched.
  void release(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace fovea::io
