// Walks a mistyped path; where a folder does not exist, continues with those of similar names.
#include "hub/look_alikes.hpp"

#include <filesystem>
#include <system_error>
#include <vector>

#include "core/error.hpp"
#include "hub/cache.hpp"
#include "io/nearest.hpp"
#include "io/text.hpp"

namespace fovea::hub {
namespace {

namespace fs = std::filesystem;

// Maximum number of entries read per folder, since the search only improves an error message.
constexpr std::size_t kMaxEntries = 1000;

std::vector<std::string> subfolder_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  fs::directory_iterator entries(folder.empty() ? "." : folder, ignored);
  for (std::size_t count = 0; entries != fs::directory_iterator() && count < kMaxEntries;
       entries.increment(ignored), ++count) {
    if (entries->is_directory(ignored)) {
      names.push_back(entries->path().filename().string());
    }
  }
  return names;
}

// Returns `part` in each of `folders` where it exists, else the subfolders with the nearest names.
std::vector<fs::path> descend(const std::vector<fs::path>& folders, const fs::path& part) {
  std::vector<fs::path> matches;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (fs::is_directory(folder / part, ignored)) {
      matches.push_back(folder / part);
      continue;
    }
    for (const std::string& name : io::nearest(part.string(), subfolder_names(folder))) {
      matches.push_back(folder / name);
    }
  }
  return matches;
}

std::vector<std::string> cached_models() {
  std::vector<std::string> names;
  try {
    constexpr std::string_view kPrefix = "models--";
    for (const std::string& name : subfolder_names(cache_folder())) {
      const std::size_t separator = name.find("--", kPrefix.size());
      if (name.starts_with(kPrefix) && separator != std::string::npos) {
        names.push_back(fmt::format("{}/{}",
                                    name.substr(kPrefix.size(), separator - kPrefix.size()),
                                    name.substr(separator + 2)));
      }
    }
  } catch (const Error&) {
    return {};  // there is no cache
  }
  return names;
}

}  // namespace

std::string look_alikes(const std::string& name) {
  std::vector<fs::path> folders = {""};
  for (const fs::path& part : fs::path(name)) {
    folders = part.empty() ? folders : descend(folders, part);
  }
  std::vector<std::string> models = io::nearest(name, cached_models());
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (!folder.empty() && fs::exists(folder / "config.json", ignored)) {
      models.push_back(folder.string());
    }
  }
  std::erase(models, name);  // the model is in the cache, but not this revision
  std::string text;
  for (const std::string& model : models) {
    text += (text.empty() ? "; did you mean " : " or ") + io::escape(model);
  }
  return text.empty() ? "" : text + "?";
}

}  // namespace fovea::hub
