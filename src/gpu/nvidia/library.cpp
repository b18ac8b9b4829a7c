// Finds and opens vendors' libraries.
#include "gpu/nvidia/library.hpp"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include <dlfcn.h>

#include "core/error.hpp"

namespace fovea::gpu {
namespace {

namespace fs = std::filesystem;

/// Returns the sub-folders of `parent` whose names begin with `prefix`.
std::vector<fs::path> folders(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> matches;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      matches.push_back(entry.path());
    }
  }
  return matches;
}

/// Returns the folders of Python's packages: the active environment's, then the system's.
std::vector<fs::path> site_packages() {
  // Only absolute folders, since loading untrusted libraries from the working directory is unsafe.
  std::vector<fs::path> roots;
  if (const char* const environment = std::getenv("VIRTUAL_ENV");
      environment != nullptr && fs::path(environment).is_absolute()) {
    roots.emplace_back(environment);
  }
  // The active environment is that of the interpreter found in PATH.
  if (const char* const path = std::getenv("PATH"); path != nullptr) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const fs::path folder(rest.substr(0, rest.find(':')));
      std::error_code ignored;
      if (folder.is_absolute() && fs::exists(folder / "python3", ignored)) {
        roots.push_back(folder.parent_path());
      }
      rest.remove_prefix(
          std::min(rest.size(), rest.find(':') == rest.npos ? rest.size() : rest.find(':') + 1));
    }
  }
  roots.insert(roots.end(), {"/usr/local", "/usr"});
  std::vector<fs::path> found;
  for (const fs::path& root : roots) {
    for (const fs::path& python : folders(root / "lib", "python3")) {
      found.push_back(python / "site-packages");
      found.push_back(python / "dist-packages");
    }
  }
  return found;
}

std::vector<fs::path> system_files(std::span<const std::string_view> names) {
  // The loader searches its path for names without a slash.
  std::vector<fs::path> files(names.begin(), names.end());
  for (const char* const folder :
       {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"}) {
    for (const std::string_view name : names) {
      files.push_back(fs::path(folder) / name);
    }
  }
  return files;
}

std::vector<fs::path> python_files(std::span<const std::string_view> names,
                                   std::span<const std::string_view> packages) {
  std::vector<fs::path> files;
  for (const fs::path& site : site_packages()) {
    for (const std::string_view package : packages) {
      for (const std::string_view name : names) {
        files.push_back(site / package / name);
      }
    }
  }
  return files;
}

}  // namespace

Library Library::open(std::string_view what, const char* variable,
                      std::span<const std::string_view> names,
                      std::span<const std::string_view> python_packages, LookFirst first) {
  const char* const named = std::getenv(variable);
  const bool only_named = named != nullptr && *named != '\0';
  std::vector<fs::path> candidates;
  if (only_named) {
    candidates.emplace_back(named);
  } else {
    candidates = system_files(names);
    const std::vector<fs::path> packaged = python_files(names, python_packages);
    candidates.insert(first == LookFirst::kPython ? candidates.begin() : candidates.end(),
                      packaged.begin(), packaged.end());
  }
  Library library;
  std::string unopened;  // the loader's errors for existing files
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    if (candidate.has_parent_path() && !fs::exists(candidate, ignored)) {
      continue;
    }
    library.handle_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle_ != nullptr) {
      library.path_ = candidate.string();
      return library;
    }
    const std::string reason = dlerror();
    const bool absent = reason.starts_with(candidate.string() + ":") &&
                        reason.ends_with("No such file or directory");
    if (!absent) {  // the library exists, perhaps without a library that it depends on
      unopened += (unopened.empty() ? "" : "; ") + reason;
    }
  }
  if (only_named) {
    fail("{} names the library for {}, but {} cannot be opened{}", variable, what, named,
         unopened.empty() ? "" : " (" + unopened + ")");
  }
  if (!unopened.empty()) {
    fail("{} is installed but cannot be opened: {}", what, unopened);
  }
  fail(
      "cannot find {} in the loader's path, in CUDA's folders or in Python's packages; "
      "set {} to the library's file",
      what, variable);
}

LibraryFunction Library::function(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address == nullptr) {
    fail("{} has no {}: it is too old", path_, name);
  }
  return LibraryFunction(address);
}

}  // namespace fovea::gpu
