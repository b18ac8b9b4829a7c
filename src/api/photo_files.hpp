// Finds the files of a collection's photos, and reads their metadata from the file system.
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

  /// Returns the photo of a row, without its capture date.
  [[nodiscard]] Photo load_photo(std::int64_t row) const;

  /// Returns the path for a name in the index of an output.
  [[nodiscard]] std::filesystem::path photo_path(const std::string& source,
                                                 std::size_t output) const;

 private:
  [[nodiscard]] const std::filesystem::path& start_folder(std::size_t output) const;
  [[nodiscard]] std::filesystem::path find_start_folder(std::size_t output) const;

  const search::Shards& shards_;
  std::filesystem::path root_;
  mutable std::mutex mutex_;
  // The folder that relative names of each output start from, once known.
  mutable std::vector<std::optional<std::filesystem::path>> start_folders_;
};

struct FileIdentity {
  /// Equal for two photos that are the same file under two names (links, different paths), or the
  /// same archive member. For a file that cannot be read it is the path.
  std::string file;
  /// Also equal for one file that is reached through two mounts with different device numbers; very
  /// unlikely to be equal for two different files. "" for a file that cannot be read.
  std::string device_independent;
};
[[nodiscard]] FileIdentity file_identity(const Photo& photo);

/// Sets `captured` from the beginning of the file, if it holds a date.
void read_capture_date(Photo& photo);

}  // namespace fovea
