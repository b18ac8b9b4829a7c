// AtomicFile over write(2), fsync(2), renameat(2).
#include "io/atomic_file.hpp"

#include <cerrno>
#include <utility>

#include <sys/file.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "io/write_all.hpp"

namespace fovea::io {
namespace {

std::shared_ptr<const Folder> folder_of(const std::filesystem::path& path) {
  try {
    return std::make_shared<const Folder>(path.parent_path());
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    fail("{}: cannot create: {}", escape(path.native()), error.what());
  }
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path)
    : AtomicFile(folder_of(path), path.filename().native()) {}

AtomicFile::AtomicFile(std::shared_ptr<const Folder> folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)), partial_(name_ + ".partial") {
  // The lock ends with its process, so that the file of a killed writer can be taken over. When a
  // writer renames its file between our open and our lock, we hold the wrong file and try again.
  do {
    file_ = folder_->open_to_write(partial_, true);
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        fail("{}: another run is writing this file; wait for it or choose another output",
             escape((*folder_ / name_).native()));
      }
      fail_with_errno(shown(), "lock");
    }
  } while (!folder_->names(partial_, file_));
  if (::ftruncate(file_.get(), 0) != 0) {
    fail_with_errno(shown(), "empty");
  }
}

AtomicFile::~AtomicFile() {
  if (!file_.open()) {
    return;
  }
  try {
    if (folder_->names(partial_, file_)) {
      folder_->remove(partial_);  // while the lock is held: it is ours
    }
  } catch (const Error&) {
    return;  // it stays, and the next writer takes it over
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(file_.get(), bytes, shown());
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::write_at(std::size_t offset, std::span<const std::byte> bytes) {
  write_all_at(file_.get(), bytes, offset, shown());
}

void AtomicFile::remove_old() const {
  folder_->remove(name_);
}

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) {
    fail_with_errno(shown(), "sync");
  }
  if (!folder_->names(partial_, file_)) {
    fail("{}: another file was put in its place while it was written", escape(shown().native()));
  }
  folder_->rename(partial_, name_);
  file_.reset();  // synced above, and it holds the lock until the rename
  folder_->sync();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
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
