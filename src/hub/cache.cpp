// Finds the Hugging Face cache, and reads it in the layout of huggingface_hub
// (huggingface_hub@f7c9b7d src/huggingface_hub/constants.py, file_download.py).
#include "hub/cache.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "core/error.hpp"
#include "io/file.hpp"

namespace fovea::hub {
namespace fs = std::filesystem;
namespace {

fs::path user_folder() {
  const std::string home = environment("HOME");
  if (home.empty()) {
    fail("cannot find the Hugging Face cache: set HF_HOME (or HOME)");
  }
  return home;
}

// Replaces a leading "~" by the user's home folder.
fs::path expand_user(const std::string& path) {
  if (path == "~") {
    return user_folder();
  }
  return path.starts_with("~/") ? user_folder() / path.substr(2) : fs::path(path);
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

}  // namespace

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread sets variables
  return value == nullptr ? "" : value;
}

bool is_hub_id(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos || text.find('/', slash + 1) != std::string_view::npos) {
    return false;
  }
  // Names are letters, digits, '.', '_' and '-', neither starting nor ending with '.' or '-';
  // "--" separates names in the cache and ".." would leave it.
  const auto is_name = [](std::string_view name) {
    constexpr std::size_t kMaxLength = 96;
    const auto is_allowed = [](unsigned char c) {
      return c < 0x80 && (std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-');
    };
    const auto is_edge = [](char c) { return c == '.' || c == '-'; };
    return !name.empty() && name.size() <= kMaxLength &&
           std::all_of(name.begin(), name.end(), is_allowed) && !is_edge(name.front()) &&
           !is_edge(name.back()) && name.find("--") == std::string_view::npos &&
           name.find("..") == std::string_view::npos;
  };
  return is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1));
}

bool is_commit(std::string_view text) {
  constexpr std::size_t kDigits = 40;  // SHA-1
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_revision(std::string_view text) {
  // git does not allow these characters in names (git-check-ref-format).
  const auto is_allowed = [](unsigned char c) {
    return c > ' ' && c != 0x7f &&
           std::string_view("\\~^:?*[").find(static_cast<char>(c)) == std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_allowed) &&
         text.front() != '/' && text.back() != '/' && text.front() != '.' &&
         text.find("..") == std::string_view::npos && text.find("//") == std::string_view::npos &&
         text.find("/.") == std::string_view::npos;
}

fs::path home_folder() {
  if (const std::string home = environment("HF_HOME"); !home.empty()) {
    return expand_user(home);
  }
  if (const std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) {
    return expand_user(xdg) / "huggingface";
  }
  return user_folder() / ".cache" / "huggingface";
}

fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string cache = environment(name); !cache.empty()) {
      return expand_user(cache);
    }
  }
  return home_folder() / "hub";
}

bool is_offline() {
  return is_true(environment("HF_HUB_OFFLINE")) || is_true(environment("TRANSFORMERS_OFFLINE"));
}

ModelCache::ModelCache(const fs::path& cache, std::string_view id) {
  std::string name = "models--";
  for (const char c : id) {
    name += c == '/' ? "--" : std::string(1, c);
  }
  folder_ = cache / name;
}

fs::path ModelCache::blob(std::string_view etag) const {
  return folder_ / "blobs" / etag;
}

fs::path ModelCache::ref(std::string_view revision) const {
  return folder_ / "refs" / revision;
}

fs::path ModelCache::snapshot(std::string_view commit) const {
  return folder_ / "snapshots" / commit;
}

std::optional<std::string> ModelCache::find_commit(std::string_view revision) const {
  std::string commit(revision);
  if (!is_commit(revision)) {
    const fs::path file = ref(revision);
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
      return std::nullopt;
    }
    constexpr std::size_t kMaxBytes = 64;  // a commit and white space
    commit.resize(kMaxBytes);
    std::ifstream stream(file, std::ios::binary);
    stream.read(commit.data(), static_cast<std::streamsize>(commit.size()));
    commit.resize(static_cast<std::size_t>(stream.gcount()));
    while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0) {
      commit.pop_back();
    }
  }
  std::error_code ignored;
  if (!is_commit(commit) || !fs::is_directory(snapshot(commit), ignored)) {
    return std::nullopt;
  }
  return commit;
}

std::vector<std::string> missing_files(const fs::path& folder) {
  std::vector<std::string> missing;
  for (const char* name : {"config.json", "preprocessor_config.json"}) {
    if (!io::exists(folder / name)) {
      missing.emplace_back(name);
    }
  }
  if (!io::exists(folder / "model.safetensors") &&
      !io::exists(folder / "model.safetensors.index.json")) {
    missing.emplace_back("model.safetensors");
  }
  return missing;
}

}  // namespace fovea::hub
