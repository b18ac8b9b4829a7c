// PartialFile: implemented with pwrite(2), ftruncate(2), fdatasync(2) and renameat(2).
#include "io/partial_file.hpp"

#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "io/write_all.hpp"

namespace fovea::io {

PartialFile::PartialFile(std::shared_ptr<const Folder> folder, std::string name,
                         std::uint64_t valid_bytes)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      partial_(name_ + ".partial"),
      size_(valid_bytes) {
  // A run that was killed after the rename but before recording it leaves the file under its final
  // name: rename it back.
  if (valid_bytes > 0 && left_as(*folder_, name_) == name_) {
    folder_->rename(name_, partial_);
  }
  file_ = folder_->open_to_write(partial_, valid_bytes == 0);
  struct stat info{};
  if (::fstat(file_.get(), &info) != 0) {
    fail_with_errno(path_for_messages(), "examine");
  }
  if (static_cast<std::uint64_t>(info.st_size) < valid_bytes) {
    fail("{}: holds {} bytes, but an earlier run wrote at least {}",
         escape(path_for_messages().native()), info.st_size, valid_bytes);
  }
  if (::ftruncate(file_.get(), static_cast<off_t>(valid_bytes)) != 0) {
    fail_with_errno(path_for_messages(), "truncate");
  }
}

std::string PartialFile::left_as(const Folder& folder, const std::string& name) {
  const std::string partial = name + ".partial";
  return !folder.has(partial) && folder.has(name) ? name : partial;
}

void PartialFile::write(std::span<const std::byte> bytes) {
  write_at(size_, bytes);
  size_ += bytes.size();
}

void PartialFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void PartialFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  synced_ = synced_ && bytes.empty();
  write_all_at(file_.get(), bytes, offset, path_for_messages());
  // Starts writeback now, so that the next sync() waits less. Failures are ignored here, and
  // reported by sync().
  constexpr std::size_t kMinWritebackBytes = std::size_t{1} << 20;
  if (bytes.size() >= kMinWritebackBytes) {
    (void)::sync_file_range(file_.get(), static_cast<off_t>(offset),
                            static_cast<off_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
  }
}

void PartialFile::sync() {
  if (!synced_ && !is_synced(::fdatasync(file_.get()))) {
    fail_with_errno(path_for_messages(), "sync");
  }
  synced_ = true;
}

void PartialFile::commit() {
  sync_file(file_, path_for_messages());
  if (!folder_->names(partial_, file_)) {
    fail("{}: was replaced by another file while it was written",
         escape(path_for_messages().native()));
  }
  folder_->rename(partial_, name_);
  file_.reset();
}

}  // namespace fovea::io
