// Finds photos. Relative names are resolved from the folder where `fovea embed` ran, if the photos
// are still there.
#include "api/photo_files.hpp"

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/read_photos.hpp"
#include "core/error.hpp"
#include "image/exif.hpp"
#include "io/file.hpp"
#include "io/text.hpp"

namespace fovea {
namespace fs = std::filesystem;
namespace {

bool photo_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) || !containing_archive(path).empty();
}

// The file to read for a photo: for an archive member, the archive.
std::string containing_file(const Photo& photo) {
  return photo.is_member ? containing_archive(photo.file) : photo.file.native();
}

}  // namespace

PhotoFiles::PhotoFiles(const search::Shards& shards, fs::path root)
    : shards_(shards), root_(std::move(root)), start_folders_(shards.outputs().size()) {}

fs::path PhotoFiles::photo_path(const std::string& source, std::size_t output) const {
  const fs::path name = io::unescape(source);
  return name.is_absolute() ? name : start_folder(output) / name;
}

const fs::path& PhotoFiles::start_folder(std::size_t output) const {
  const std::lock_guard lock(mutex_);
  std::optional<fs::path>& start = start_folders_[output];
  if (!start) {
    start = root_.empty() ? find_start_folder(output) : root_;
  }
  return *start;
}

// Returns an empty path for the working directory, so that relative names stay unchanged.
fs::path PhotoFiles::find_start_folder(std::size_t output) const {
  const search::Origin& origin = shards_.outputs()[output];
  std::error_code ignored;
  const fs::path& recorded = origin.working_folder;
  std::vector<fs::path> candidates{{}};
  if (fs::is_directory(recorded, ignored) && !fs::equivalent(recorded, ".", ignored)) {
    candidates.insert(candidates.begin(), recorded);
  }
  // "." has a parent only as an absolute path.
  candidates.push_back(
      (fs::absolute(origin.path) / ".").lexically_normal().parent_path().parent_path());
  // A few names suffice, because all of them are relative to the same folder.
  constexpr std::int64_t kMaxTries = 16;
  const auto [first, count] = shards_.row_range(output);
  const std::int64_t step = std::max<std::int64_t>(1, count / kMaxTries);
  for (const fs::path& candidate : candidates) {
    for (std::int64_t row = first; row < first + count; row += step) {
      const fs::path name = io::unescape(shards_.entry(row).source);
      if (!name.is_absolute() && photo_exists(candidate / name)) {
        return candidate;
      }
    }
  }
  return candidates.front();
}

Photo PhotoFiles::load_photo(std::int64_t row) const {
  const search::IndexEntry entry = shards_.entry(row);
  Photo photo;
  photo.row = row;
  photo.source = entry.source;
  photo.output = shards_.output_index(row);
  photo.width = entry.width;
  photo.height = entry.height;
  photo.file = photo_path(entry.source, photo.output);
  struct stat info{};
  int result = ::stat(photo.file.c_str(), &info);
  if (result != 0) {
    const int reason = errno;
    const std::string archive = containing_archive(photo.file);
    photo.is_member = !archive.empty();
    if (!photo.is_member || ::stat(archive.c_str(), &info) != 0) {
      photo.error = std::system_category().message(reason);
      return photo;
    }
  }
  if (!S_ISREG(info.st_mode)) {
    photo.error = S_ISDIR(info.st_mode) ? "is a folder" : "not a regular file";
    return photo;
  }
  if (::access(containing_file(photo).c_str(), R_OK) != 0) {
    photo.error = std::system_category().message(errno);
  }
  if (!photo.is_member) {
    photo.bytes = info.st_size;
  }
  photo.modified = info.st_mtim.tv_sec;
  const io::File::Version written = shards_.version(row);
  // Programs that copy files also copy the modification time (mtime), but not the status change
  // time (ctime).
  const auto to_pair = [](const timespec& time) {
    return std::pair<std::int64_t, std::int64_t>(time.tv_sec, time.tv_nsec);
  };
  const auto is_later = [&](const timespec& time) {
    return to_pair(time) > std::pair(written.seconds, written.nanoseconds);
  };
  // Rows are written after their photos were read, and a copied output has a later time still.
  const bool has_other_stamp =
      entry.file ? entry.file != io::file_stamp(info) : is_later(info.st_mtim);
  photo.has_changed = has_other_stamp || is_later(info.st_ctim);
  return photo;
}

FileIdentity file_identity(const Photo& photo) {
  struct stat info{};
  const std::string file = containing_file(photo);
  if (::stat(file.c_str(), &info) != 0) {
    return {fs::absolute(photo.file).lexically_normal().native(), ""};
  }
  const std::string member = photo.file.native().substr(file.size());
  const io::FileStamp stamp = io::file_stamp(info);
  // No path contains a NUL byte, so these identities never equal a path.
  return {fmt::format("{}:{}{}{}", info.st_dev, info.st_ino, '\0', member),
          fmt::format("{}:{}:{}{}{}", info.st_ino, stamp.bytes, stamp.modified_ns, '\0', member)};
}

void read_capture_date(Photo& photo) {
  constexpr std::size_t kReadBytes = std::size_t{64} << 10;
  if (photo.is_member || !photo.error.empty()) {
    return;
  }
  try {
    const io::File file(photo.file);
    std::vector<std::byte> bytes(kReadBytes);
    const auto read_at = [&](std::uint64_t offset) {
      photo.captured = image::capture_date(std::span(bytes).first(file.read_some(offset, bytes)));
    };
    read_at(0);
    if (const auto size = static_cast<std::uint64_t>(photo.bytes.value_or(0));
        photo.captured.empty() && size > kReadBytes) {
      read_at(size - kReadBytes);  // libheif and libwebp write EXIF data last
    }
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    photo.error = error.what();
  }
}

}  // namespace fovea
