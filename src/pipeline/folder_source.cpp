// Image files below a folder, depth first, in byte-wise order of their paths.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <sys/stat.h>

#include "pipeline/source.hpp"

namespace fovea::pipeline {
namespace {

// Names of one folder, sorted; kept in one string because a folder may hold millions of them.
class Listing {
 public:
  void add(std::string_view name, bool folder) {
    starts_.push_back(names_.size());
    names_ += name;
    // A folder's entries sort as "name/...", so that whole paths come in byte-wise order.
    names_ += folder ? "/" : "";
    names_ += '\0';
  }
  void sort() {
    std::ranges::sort(starts_, [this](std::size_t a, std::size_t b) { return at(a) < at(b); });
  }
  [[nodiscard]] bool done() const { return next_ == starts_.size(); }
  /// The next name; a folder's ends in '/'.
  std::string_view take() { return at(starts_[next_++]); }

 private:
  [[nodiscard]] std::string_view at(std::size_t start) const { return names_.data() + start; }

  std::string names_;
  std::vector<std::size_t> starts_;
  std::size_t next_ = 0;
};

class FolderSource final : public Source {
 public:
  explicit FolderSource(std::string path) {
    if (!path.ends_with('/')) {
      path += '/';
    }
    enter(std::move(path));
  }

  bool next(Item& item) override {
    while (!stack_.empty()) {
      if (!failure_.error.empty()) {
        item = std::exchange(failure_, Item{});
        return true;
      }
      Level& level = stack_.back();
      if (level.listing.done()) {
        stack_.pop_back();
        continue;
      }
      const std::string_view name = level.listing.take();
      std::string path = level.path;
      path += name;
      if (name.ends_with('/')) {
        enter(std::move(path));
        continue;
      }
      item = Item{};
      item.name = std::move(path);
      return true;
    }
    if (!failure_.error.empty()) {  // the outermost folder could not be opened
      item = std::exchange(failure_, Item{});
      return true;
    }
    return false;
  }

 private:
  struct Level {
    std::string path;  // ends in '/'
    dev_t device = 0;
    ino_t inode = 0;
    Listing listing;
  };

  void fail_folder(const std::string& path, int code) {
    failure_.kind = Item::Kind::kFailed;
    failure_.name = path;
    failure_.error = std::string("cannot read the folder: ") + std::strerror(code);
  }

  void enter(std::string path) {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    struct stat info{};
    if (!folder || ::fstat(::dirfd(folder.get()), &info) != 0) {
      fail_folder(path, errno);
      return;
    }
    // A link to a folder that this one lies in would never end; its images come anyway.
    const auto same = [&](const Level& level) {
      return level.device == info.st_dev && level.inode == info.st_ino;
    };
    if (std::ranges::any_of(stack_, same)) {
      return;
    }
    Level level{
        .path = std::move(path), .device = info.st_dev, .inode = info.st_ino, .listing = {}};
    errno = 0;
    while (const dirent* entry = ::readdir(folder.get())) {
      add(*folder, *entry, level.listing);
      errno = 0;
    }
    if (errno != 0) {
      fail_folder(level.path, errno);
    }
    level.listing.sort();
    stack_.push_back(std::move(level));
  }

  static void add(DIR& folder, const dirent& entry, Listing& listing) {
    const std::string_view name = entry.d_name;
    // "._x.jpg" is the resource fork that macOS leaves beside x.jpg on foreign disks: no image.
    if (name == "." || name == ".." || name.starts_with("._")) {
      return;
    }
    bool is_folder = entry.d_type == DT_DIR;
    if (entry.d_type == DT_LNK || entry.d_type == DT_UNKNOWN) {
      struct stat info{};
      is_folder = ::fstatat(::dirfd(&folder), entry.d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
    }
    if (is_folder || has_image_extension(name)) {
      listing.add(name, is_folder);
    }
  }

  std::vector<Level> stack_;
  Item failure_;
};

}  // namespace

std::unique_ptr<Source> make_folder_source(std::string path) {
  return std::make_unique<FolderSource>(std::move(path));
}

}  // namespace fovea::pipeline
