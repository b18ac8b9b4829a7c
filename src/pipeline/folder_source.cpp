// FolderSource: lists image files below a folder, depth first, in byte-wise order of their paths.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/error.hpp"
#include "io/text.hpp"
#include "pipeline/file_kinds.hpp"
#include "pipeline/source.hpp"

namespace fovea::pipeline {
namespace {

// The sorted names in one folder. They share one string, because a folder may hold millions.
class Listing {
 public:
  void add(std::string_view name, bool folder) {
    starts_.push_back(names_.size());
    names_ += name;
    // The slash puts a folder where its paths belong in byte-wise order.
    names_ += folder ? "/" : "";
    names_ += '\0';
  }
  void sort() {
    std::ranges::sort(starts_, [this](std::size_t a, std::size_t b) { return at(a) < at(b); });
  }
  [[nodiscard]] bool done() const { return next_ == starts_.size(); }
  /// Returns the next name; that of a folder ends in '/'.
  std::string_view take() { return at(starts_[next_++]); }

 private:
  [[nodiscard]] std::string_view at(std::size_t start) const { return names_.data() + start; }

  std::string names_;
  std::vector<std::size_t> starts_;
  std::size_t next_ = 0;
};

class FolderSource final : public Source {
 public:
  FolderSource(std::string path, FileFilter filter, LeftOut* left_out)
      : filter_(std::move(filter)), left_out_(left_out) {
    if (!path.ends_with('/')) {
      path += '/';
    }
    input_folder_ = path;
    enter(std::move(path), false, filter_.top());
  }

 private:
  bool do_next(Item& item, StopFlag stop) override {
    if (find_next(item, stop)) {
      is_empty_ = false;
      return true;
    }
    if (is_empty_ && left_out_ != nullptr) {
      left_out_->add_empty_folder(input_folder_);
    }
    return false;
  }

  bool find_next(Item& item, StopFlag stop) {
    for (;;) {
      stop.poll();
      if (!failed_folder_.error.empty()) {
        item = std::exchange(failed_folder_, Item{});
        return true;
      }
      if (stack_.empty()) {
        return false;
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
        const std::string folder = path.substr(0, path.size() - 1);
        const bool has_link = level.has_link || is_link(folder);
        const FileFilter::Verdict verdict = filter_.folder(level.verdict, relative(folder));
        enter(std::move(path), has_link, verdict);
        continue;
      }
      item = Item{};
      item.name = std::move(path);
      return true;
    }
  }

  using FolderId = std::pair<dev_t, ino_t>;

  struct Level {
    std::string path;  // ends in '/'
    FolderId id;
    FileFilter::Verdict verdict;
    bool is_output = false;  // whether the job writes into this folder
    bool has_link = false;   // whether some part of the path is a link
    Listing listing;
  };

  // Returns the path relative to the input folder.
  [[nodiscard]] std::string_view relative(const std::string& path) const {
    return std::string_view(path).substr(input_folder_.size());
  }

  void count_left_out(std::string_view kind, std::string_view path) {
    if (left_out_ != nullptr) {
      left_out_->add_file(kind, path);
    }
  }

  void fail_folder(const std::string& path, int code, const FileFilter::Verdict& verdict) {
    const std::string error = std::string("cannot read the folder: ") + std::strerror(code);
    if (code == EMFILE || code == ENFILE || code == ENOMEM) {
      throw ResourceError(io::escape(path) + ": " + error);
    }
    if (verdict.left_out.empty()) {
      failed_folder_ = failed_item(path, error);
    } else {
      count_left_out(verdict.left_out, path);
    }
  }

  static bool is_link(const std::string& path) {
    struct stat info{};
    return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  }

  void enter(std::string path, bool has_link, const FileFilter::Verdict& verdict) {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    struct stat info{};
    if (!folder || ::fstat(::dirfd(folder.get()), &info) != 0) {
      fail_folder(path, errno, verdict);
      return;
    }
    const FolderId id(info.st_dev, info.st_ino);
    // Links to a parent folder are not followed, since the listing would never end.
    if (std::ranges::find(stack_, id, &Level::id) != stack_.end()) {
      return;
    }
    // Each folder is read once, even if several links or mounts lead to it: under its path without
    // links, if it has one.
    if (verdict.left_out.empty() &&
        ((has_link && is_read_without_link(path)) || !folders_read_.insert(id).second)) {
      if (left_out_ != nullptr) {
        left_out_->add_linked_folder(path);
      }
      return;
    }
    Level level{.path = std::move(path),
                .id = id,
                .verdict = verdict,
                .is_output = left_out_ != nullptr && left_out_->is_output_folder(info),
                .has_link = has_link,
                .listing = {}};
    errno = 0;
    while (const dirent* entry = ::readdir(folder.get())) {
      add(*folder, *entry, level);
      errno = 0;
    }
    if (errno != 0) {
      fail_folder(level.path, errno, verdict);
    }
    level.listing.sort();
    stack_.push_back(std::move(level));
  }

  // Returns whether a folder that was reached through a link is also read under a path without
  // links.
  [[nodiscard]] bool is_read_without_link(const std::string& path) {
    std::error_code error;
    const std::string folder = std::filesystem::canonical(path, error).native();
    if (real_input_folder_.empty()) {
      real_input_folder_ = std::filesystem::canonical(input_folder_, error).native();
      real_input_folder_ += real_input_folder_.ends_with('/') ? "" : "/";
    }
    if (error || !folder.starts_with(real_input_folder_)) {
      return false;
    }
    const std::string_view relative_path =
        std::string_view(folder).substr(real_input_folder_.size());
    FileFilter::Verdict verdict = filter_.top();
    for (std::size_t end = 0; end != std::string_view::npos && verdict.left_out.empty();) {
      end = relative_path.find('/', end + 1);
      verdict = filter_.folder(verdict, relative_path.substr(0, end));
    }
    return verdict.left_out.empty();
  }

  // Lists a folder or an input, and counts everything else. Links below folders that are left out
  // are not followed, so that counting always ends.
  void add(DIR& folder, const dirent& entry, Level& level) {
    const std::string_view name = entry.d_name;
    if (name == "." || name == ".." || (level.is_output && left_out_->is_output(name))) {
      return;
    }
    const std::string path = level.path + entry.d_name;
    bool is_folder = entry.d_type == DT_DIR;
    bool is_link = entry.d_type == DT_LNK;
    struct stat info{};
    if (entry.d_type == DT_UNKNOWN &&
        ::fstatat(::dirfd(&folder), entry.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
      is_folder = S_ISDIR(info.st_mode);
      is_link = S_ISLNK(info.st_mode);
    }
    if (is_link && level.verdict.left_out.empty()) {
      is_folder = ::fstatat(::dirfd(&folder), entry.d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
    }
    std::string_view left_out;
    if (!is_folder) {
      left_out = filter_.file(level.verdict, relative(path), file_kind(name) == kImageKind);
    } else if (is_link) {
      left_out = filter_.folder(level.verdict, relative(path)).left_out;
    }
    if (left_out.empty()) {
      level.listing.add(name, is_folder);
    } else {
      count_left_out(left_out, path);
    }
  }

  FileFilter filter_;
  LeftOut* left_out_;
  std::string input_folder_;  // ends in '/'
  bool is_empty_ = true;
  std::vector<Level> stack_;
  std::string real_input_folder_;  // input_folder_ without links; set when first needed
  std::set<FolderId> folders_read_;
  Item failed_folder_;
};

}  // namespace

std::unique_ptr<Source> make_folder_source(std::string path, FileFilter filter, LeftOut* left_out) {
  return std::make_unique<FolderSource>(std::move(path), std::move(filter), left_out);
}

}  // namespace fovea::pipeline
