// Folder: implemented with openat(2), fstatat(2), renameat(2) and unlinkat(2).
#include "io/folder.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "io/write_all.hpp"

namespace fovea::io {
namespace {

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

Folder::Folder(std::filesystem::path path)
    : path_(std::move(path)),
      folder_(::open(path_.empty() ? "." : path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!folder_.open()) {
    fail_with_errno(path_, "open the folder");
  }
}

std::shared_ptr<const Folder> Folder::make(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  std::error_code ignored;
  if (error && !std::filesystem::is_directory(path, ignored)) {
    fail("{}: cannot create the folder: {}", escape(path.native()), error.message());
  }
  return std::make_shared<const Folder>(path);
}

std::filesystem::path Folder::operator/(const std::string& name) const {
  return path_ / name;
}

Descriptor Folder::open_to_write(const std::string& name, bool create) const {
  // O_NONBLOCK: opening must not wait for a pipe in its place. Regular files ignore it.
  const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Descriptor file(::openat(folder_.get(), name.c_str(), flags | (create ? O_CREAT : 0), 0666));
  const std::filesystem::path path = *this / name;
  if (!file.open()) {
    if (errno == ELOOP) {
      fail("{}: is a link; cannot write through links: remove it", escape(path.native()));
    }
    fail_with_errno(path, create ? "create" : "open for writing");
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) {
    fail_with_errno(path, "examine");
  }
  if (!S_ISREG(info.st_mode)) {
    fail("{}: not a regular file; cannot write to it: remove it", escape(path.native()));
  }
  if (info.st_nlink > 1) {
    fail("{}: has another hard link, whose content would change, too: remove it",
         escape(path.native()));
  }
  return file;
}

OpenedFile Folder::open_to_read(const std::string& name) const {
  return with_path(*this / name, [&] { return open_regular_file(name, folder_.get()); });
}

std::shared_ptr<const Folder> Folder::make_folder(const std::string& name) const {
  if (::mkdirat(folder_.get(), name.c_str(), 0777) != 0 && errno != EEXIST) {
    fail_with_errno(*this / name, "create the folder");
  }
  std::shared_ptr<const Folder> folder = open_folder(name);
  if (!folder) {
    errno = ENOENT;
    fail_with_errno(*this / name, "open the folder");
  }
  return folder;
}

std::shared_ptr<const Folder> Folder::open_folder(const std::string& name) const {
  Descriptor folder(
      ::openat(folder_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.open()) {
    if (errno == ENOENT) {
      return nullptr;
    }
    fail_with_errno(*this / name, "open the folder");
  }
  return std::shared_ptr<const Folder>(new Folder(*this / name, std::move(folder)));
}

void Folder::remove_folder(const std::string& name) const {
  const auto info = examine(name, AT_SYMLINK_NOFOLLOW);
  if (!info) {
    return;
  }
  if (!S_ISDIR(info->st_mode)) {
    return remove(name);
  }
  const std::shared_ptr<const Folder> folder = open_folder(name);
  for (const std::string& entry : folder->list()) {
    folder->remove_folder(entry);
  }
  if (::unlinkat(folder_.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    fail_with_errno(*this / name, "remove");
  }
}

void Folder::move_to(const Folder& other, const std::string& name) const {
  if (::renameat(folder_.get(), name.c_str(), other.folder_.get(), name.c_str()) != 0) {
    fail_with_errno(*this / name, "move to " + escape(other.path_.native()));
  }
}

bool Folder::has(const std::string& name) const {
  return examine(name, AT_SYMLINK_NOFOLLOW).has_value();
}

std::optional<struct stat> Folder::examine(const std::string& name, int flags) const {
  struct stat info{};
  if (::fstatat(folder_.get(), name.c_str(), &info, flags) == 0) {
    return info;
  }
  if (errno != ENOENT) {
    fail_with_errno(*this / name, "examine");
  }
  return std::nullopt;
}

bool Folder::names(const std::string& name, const Descriptor& file) const {
  struct stat named{};
  struct stat opened{};
  return ::fstatat(folder_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(file.get(), &opened) == 0 && same_file(named, opened);
}

std::vector<std::string> Folder::list() const {
  // A separate descriptor, because reading a folder moves the descriptor's position.
  Descriptor listing_descriptor(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const entries = listing_descriptor.open() ? ::fdopendir(listing_descriptor.get()) : nullptr;
  if (entries == nullptr) {
    fail_with_errno(path_, "read the folder");
  }
  (void)listing_descriptor.release();  // closedir() closes it
  std::vector<std::string> names;
  int code = 0;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(entries);
    if (entry == nullptr) {
      code = errno;
      break;
    }
    const std::string name(entry->d_name);
    if (name != "." && name != "..") {
      names.push_back(name);
    }
  }
  ::closedir(entries);
  if (code != 0) {
    errno = code;
    fail_with_errno(path_, "read the folder");
  }
  return names;
}

void Folder::rename(const std::string& from, const std::string& to) const {
  if (::renameat(folder_.get(), from.c_str(), folder_.get(), to.c_str()) != 0) {
    fail_with_errno(*this / from, "rename to " + escape(to));
  }
}

void Folder::remove(const std::string& name) const {
  if (::unlinkat(folder_.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
    fail_with_errno(*this / name, "remove");
  }
}

void Folder::sync() const {
  sync_file(folder_, path_);
}

bool Folder::is_in_place() const {
  struct stat named{};
  struct stat opened{};
  return ::stat(path_.empty() ? "." : path_.c_str(), &named) == 0 &&
         ::fstat(folder_.get(), &opened) == 0 && same_file(named, opened);
}

}  // namespace fovea::io
