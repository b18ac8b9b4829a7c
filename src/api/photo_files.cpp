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

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) || !archive_of(path).empty();
}

// The file to read for a photo: for an archive member, the archive.
std::string file_of(const Photo& photo) {
  return photo.is_member ? archive_of(photo.file) : photo.file.native();
}

}  // namespace

PhotoFiles::PhotoFiles(const search::Shards& shards, fs::path root)
    : shards_(shards), root_(std::move(root)), starts_(shards.outputs().size()) {}

fs::path PhotoFiles::path_of(const std::string& source, std::size_t output) const {
  const fs::path name = io::unescape(source);
  return name.is_absolute() ? name : start_of(output) / name;
}

const fs::path& PhotoFiles::start_of(std::size_t output) const {
  const std::lock_guard lock(mutex_);
  std::optional<fs::path>& start = starts_[output];
  if (!start) {
    start = root_.empty() ? find_start(output) : root_;
  }
  return *start;
}

// An empty path stands for the working directory, so that names stay as they are.
fs::path PhotoFiles::find_start(std::size_t output) const {
  const search::Origin& origin = shards_.outputs()[output];
  std::error_code ignored;
  const fs::path& recorded = origin.working_folder;
  std::vector<fs::path> places{{}};
  if (fs::is_directory(recorded, ignored) && !fs::equivalent(recorded, ".", ignored)) {
    places.insert(places.begin(), recorded);
  }
  // "." has a parent only as an absolute path.
  places.push_back(
      (fs::absolute(origin.path) / ".").lexically_normal().parent_path().parent_path());
  // A few names suffice, because all of them are relative to the same folder.
  constexpr std::int64_t kMaxTries = 16;
  const auto [first, count] = shards_.range_of(output);
  const std::int64_t step = std::max<std::int64_t>(1, count / kMaxTries);
  for (const fs::path& place : places) {
    for (std::int64_t row = first; row < first + count; row += step) {
      const fs::path name = io::unescape(shards_.entry(row).source);
      if (!name.is_absolute() && is_there(place / name)) {
        return place;
      }
    }
  }
  return places.front();
}

Photo PhotoFiles::look(std::int64_t row) const {
  const search::IndexEntry entry = shards_.entry(row);
  Photo photo;
  photo.row = row;
  photo.source = entry.source;
  photo.output = shards_.output_of(row);
  photo.width = entry.width;
  photo.height = entry.height;
  photo.file = path_of(entry.source, photo.output);
  struct stat info{};
  int result = ::stat(photo.file.c_str(), &info);
  if (result != 0) {
    const int reason = errno;
    const std::string archive = archive_of(photo.file);
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
  if (::access(file_of(photo).c_str(), R_OK) != 0) {
    photo.error = std::system_category().message(errno);
  }
  if (!photo.is_member) {
    photo.bytes = info.st_size;
  }
  photo.modified = info.st_mtim.tv_sec;
  const io::File::Version written = shards_.version(row);
  // Programs that copy files also copy the modification time (mtime), but not the status change
  // time (ctime).
  const auto time_of = [](const timespec& time) {
    return std::pair<std::int64_t, std::int64_t>(time.tv_sec, time.tv_nsec);
  };
  const auto is_later = [&](const timespec& time) {
    return time_of(time) > std::pair(written.seconds, written.nanoseconds);
  };
  // Rows are written after their photos were read, and a copied output has a later time still.
  const bool is_other = entry.file ? entry.file != io::stamp_of(info) : is_later(info.st_mtim);
  photo.has_changed = is_other || is_later(info.st_ctim);
  return photo;
}

FileIdentity file_identity(const Photo& photo) {
  struct stat info{};
  const std::string file = file_of(photo);
  if (::stat(file.c_str(), &info) != 0) {
    return {fs::absolute(photo.file).lexically_normal().native(), ""};
  }
  const std::string member = photo.file.native().substr(file.size());
  const io::FileStamp stamp = io::stamp_of(info);
  // No path holds a NUL byte, so the two kinds never collide.
  return {fmt::format("{}:{}{}{}", info.st_dev, info.st_ino, '\0', member),
          fmt::format("{}:{}:{}{}{}", info.st_ino, stamp.bytes, stamp.modified_ns, '\0', member)};
}

void read_capture_date(Photo& photo) {
  constexpr std::size_t kPart = std::size_t{64} << 10;
  if (photo.is_member || !photo.error.empty()) {
    return;
  }
  try {
    const io::File file(photo.file);
    std::vector<std::byte> bytes(kPart);
    const auto read_at = [&](std::uint64_t offset) {
      photo.captured = image::capture_date(std::span(bytes).first(file.read_some(offset, bytes)));
    };
    read_at(0);
    if (const auto size = static_cast<std::uint64_t>(photo.bytes.value_or(0));
        photo.captured.empty() && size > kPart) {
      read_at(size - kPart);  // libheif and libwebp write EXIF data last
    }
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    photo.error = error.what();
  }
}

}  // namespace fovea
