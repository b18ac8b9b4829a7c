// resolve_model: looks for a folder first, then in the cache.
#include "hub/resolve.hpp"

#include <optional>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "hub/cache.hpp"
#include "hub/look_alikes.hpp"
#include "io/text.hpp"

namespace fovea::hub {
namespace fs = std::filesystem;
namespace {

// Returns the question, or "." to end the sentence when it is empty.
std::string or_period(const std::string& question) {
  return question.empty() ? "." : question;
}

fs::path find_in_cache(const std::string& id, const std::string& revision) {
  if (!is_revision(revision)) {
    fail("{}: not the name of a branch, a tag or a commit", io::escape(revision));
  }
  const ModelCache cache(cache_folder(), id);
  const std::optional<std::string> commit = cache.find_commit(revision);
  if (!commit) {
    fail(
        "{}: there is no such folder{} The local Hugging Face cache has no such model at revision "
        "{} (looked for {}): run `{}`, or give a model folder",
        id, or_period(look_alikes(id)), io::escape(revision),
        io::escape(is_commit(revision) ? cache.snapshot(revision).native()
                                       : cache.ref(revision).native()),
        pull_words(id, io::escape(revision)));
  }
  fs::path snapshot = cache.snapshot(*commit);
  if (const std::vector<std::string> missing = missing_files(snapshot); !missing.empty()) {
    fail("{}: the copy in the local cache, {}, lacks {}: run `{}`", id,
         io::escape(snapshot.native()), fmt::join(missing, ", "),
         pull_words(id, io::escape(revision)));
  }
  return snapshot;
}

}  // namespace

fs::path resolve_model(const std::string& name_or_folder, const std::string& revision) {
  fs::path path(name_or_folder);
  std::error_code ignored;  // a path that cannot be examined is reported below as missing
  if (fs::is_directory(path, ignored)) {
    return path;
  }
  if (fs::is_regular_file(path, ignored)) {
    const fs::path name = path.filename();
    if (name == "model.safetensors" || name == "model.safetensors.index.json" ||
        name == "config.json") {
      return path.has_parent_path() ? path.parent_path() : fs::path(".");
    }
    fail(
        "{}: is a file; expected a folder with config.json, preprocessor_config.json and "
        "model.safetensors",
        io::escape(name_or_folder));
  }
  if (is_hub_id(name_or_folder)) {
    return find_in_cache(name_or_folder, revision);
  }
  fail(
      "{}: there is no such folder{} It is not a hub id of the form org/name either: give a model "
      "folder or, for example, google/siglip2-base-patch16-224",
      io::escape(name_or_folder), or_period(look_alikes(name_or_folder)));
}

}  // namespace fovea::hub
