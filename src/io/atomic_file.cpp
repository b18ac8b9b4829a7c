// AtomicFile: implemented with write(2), fsync(2) and renameat(2).
#include "io/atomic_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/file_lock.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "io/write_all.hpp"

namespace fovea::io {
namespace {

std::shared_ptr<const Folder> parent_folder(const std::filesystem::path& path) {
  try {
    return std::make_shared<const Folder>(path.parent_path());
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    fail("{}: cannot create: {}", escape(path.native()), error.what());
  }
}

// Creates a temporary file without a name. It collects the content for a pipe or a device, which
// cannot be written at arbitrary offsets.
Descriptor create_unnamed_file() {
  std::string path = (std::filesystem::temp_directory_path() / "fovea-XXXXXX").native();
  Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file.open() || ::unlink(path.c_str()) != 0) {
    fail_with_errno(path, "create");
  }
  return file;
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path) : AtomicFile(output_place(path)) {}

AtomicFile::AtomicFile(OutputPlace place) : place_(std::move(place)) {
  if (place_.is_direct) {
    file_ = create_unnamed_file();
    return;
  }
  folder_ = parent_folder(place_.path);
  name_ = place_.path.filename().native();
  open_partial();
}

AtomicFile::AtomicFile(std::shared_ptr<const Folder> folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)) {
  open_partial();
}

void AtomicFile::open_partial() {
  partial_ = name_ + ".partial";
  // The kernel releases the lock of a killed writer, so that its file can be reused. When another
  // writer renames its file between open() and the lock, the wrong file is locked: try again.
  do {
    file_ = folder_->open_to_write(partial_, true);
    if (!try_lock(file_, Sharing::kExclusive, path_for_messages())) {
      fail("{}: another run is writing this file; wait for it or choose another output",
           escape((*folder_ / name_).native()));
    }
  } while (!folder_->names(partial_, file_));
  if (::ftruncate(file_.get(), 0) != 0) {
    fail_with_errno(path_for_messages(), "empty");
  }
}

std::filesystem::path AtomicFile::path_for_messages() const {
  return folder_ ? *folder_ / partial_ : place_.path;
}

AtomicFile::~AtomicFile() {
  if (!file_.open() || !folder_) {
    return;
  }
  try {
    if (folder_->names(partial_, file_)) {
      folder_->remove(partial_);  // before the lock is released
    }
  } catch (const Error&) {
    return;  // the file stays, and the next writer reuses it
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(file_.get(), bytes, path_for_messages());
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::write_at(std::size_t offset, std::span<const std::byte> bytes) {
  write_all_at(file_.get(), bytes, offset, path_for_messages());
}

void AtomicFile::remove_old() const {
  if (folder_) {
    folder_->remove(name_);
  }
}

void AtomicFile::copy_to_place() const {
  const Descriptor target = open_directly(place_);
  constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  std::vector<std::byte> block(kBlockBytes);
  for (off_t offset = 0;;) {
    const ssize_t count = ::pread(file_.get(), block.data(), block.size(), offset);
    if (count < 0 && errno != EINTR) {
      fail_with_errno(std::filesystem::temp_directory_path(), "read a temporary file in");
    }
    if (count == 0) {
      return;
    }
    offset += std::max<ssize_t>(count, 0);
    write_all(target.get(),
              std::span(block).first(static_cast<std::size_t>(std::max<ssize_t>(count, 0))),
              place_.path);
  }
}

void AtomicFile::commit() {
  if (!folder_) {
    copy_to_place();
    file_.reset();
    return;
  }
  sync_file(file_, path_for_messages());
  if (!folder_->names(partial_, file_)) {
    fail("{}: was replaced by another file while it was written",
         escape(path_for_messages().native()));
  }
  folder_->rename(partial_, name_);
  file_.reset();  // releases the lock, after the rename
  folder_->sync();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const OutputPlace place = output_place(path);
  if (place.is_direct) {
    return write_all(open_directly(place).get(), std::as_bytes(std::span(content)), place.path);
  }
  AtomicFile file(place.path);
  file.write(content);
  file.commit();
}

void write_file_atomically(const std::shared_ptr<const Folder>& folder, const std::string& name,
                           std::string_view content) {
  AtomicFile file(folder, name);
  file.write(content);
  file.commit();
}

}  // namespace fovea::io
