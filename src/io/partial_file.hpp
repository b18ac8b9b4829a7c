// PartialFile: a file that grows beside its final name over several runs, and appears when whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace fovea::io {

/// The content is collected in `path` + ".partial". Unlike AtomicFile's, that file outlives the
/// process, so that a later one can go on from a length it knows to be good. Every failed system
/// call (a full disk included) throws fovea::Error with the path and the system's reason.
class PartialFile {
 public:
  /// Opens with the first `keep` bytes of what an earlier run left, dropping the rest; creates
  /// the file when `keep` is 0. A file already committed under its final name is taken back.
  /// Throws when fewer than `keep` bytes are there.
  PartialFile(std::filesystem::path path, std::uint64_t keep);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Overwrites bytes already written, from byte `offset` on (for headers known last).
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// What was written so far survives a power cut.
  void sync();

  /// sync(), then renames the file to its path. The folder is left for the caller to sync.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::uint64_t size_ = 0;
  int fd_ = -1;
};

}  // namespace fovea::io
