// The local Hugging Face cache: its location, and the files of a model in it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::hub {

/// Returns an environment variable, or "" when it is not set: hub clients treat both alike.
[[nodiscard]] std::string environment(const char* name);

/// True for "org/name" made of the characters the hub allows.
[[nodiscard]] bool is_hub_id(std::string_view text);

/// True for 40 lower-case hexadecimal digits.
[[nodiscard]] bool is_commit(std::string_view text);

/// Returns whether a text can name a branch, tag or commit and, as a path, stays within refs/.
[[nodiscard]] bool is_revision(std::string_view text);

/// Returns HF_HOME, else XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface. Throws fovea::Error
/// when HOME is not set either.
[[nodiscard]] std::filesystem::path home_folder();

/// Returns HF_HUB_CACHE, else home_folder()/hub.
[[nodiscard]] std::filesystem::path cache_folder();

/// True when HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is 1, ON, YES or TRUE.
[[nodiscard]] bool is_offline();

/// The folder of one model within the cache:
///   models--org--name/blobs/<etag>                 contents of files
///   models--org--name/refs/<revision>              the commit a branch or tag names
///   models--org--name/snapshots/<commit>/<file>    symlinks to ../../blobs/<etag>
class ModelCache {
 public:
  ModelCache(const std::filesystem::path& cache, std::string_view id);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path blob(std::string_view etag) const;
  [[nodiscard]] std::filesystem::path ref(std::string_view revision) const;
  [[nodiscard]] std::filesystem::path snapshot(std::string_view commit) const;

  /// Returns the commit for `revision` (a branch, a tag or a commit) in the cache, if known.
  [[nodiscard]] std::optional<std::string> find_commit(std::string_view revision) const;

 private:
  std::filesystem::path folder_;
};

/// Returns the files of a model that `folder` lacks; a dangling symlink counts as missing.
[[nodiscard]] std::vector<std::string> missing_files(const std::filesystem::path& folder);

}  // namespace fovea::hub
