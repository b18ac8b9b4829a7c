// Finds the files of a collection's photos, and what the system says of them.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "fovea/search.hpp"
#include "search/shards.hpp"

namespace fovea {

class PhotoFiles {
 public:
  /// `root`: see CollectionOptions.
  PhotoFiles(const search::Shards& shards, std::filesystem::path root);

  /// The photo of a row, without its capture date.
  [[nodiscard]] Photo look(std::int64_t row) const;

  /// The path of a name in the index of an output.
  [[nodiscard]] std::filesystem::path path_of(const std::string& source, std::size_t output) const;

 private:
  [[nodiscard]] const std::filesystem::path& start_of(std::size_t output) const;
  [[nodiscard]] std::filesystem::path find_start(std::size_t output) const;

  const search::Shards& shards_;
  std::filesystem::path root_;
  mutable std::mutex mutex_;
  mutable std::vector<std::optional<std::filesystem::path>> starts_;  // by output, when known
};

struct FileIdentity {
  /// Equal for two photos that are one file under two names (links, two ways to it), or one member.
  /// A file that cannot be read is known by its path.
  std::string file;
  /// Equal also for one file that is seen through two mounts with device numbers of their own, and
  /// hardly for two files. "" for a file that cannot be read.
  std::string on_any_device;
};
[[nodiscard]] FileIdentity file_identity(const Photo& photo);

/// Sets `captured` from the beginning of the file, if it holds a date.
void read_capture_date(Photo& photo);

}  // namespace fovea
