// OutputLock. Its lock file has a line per complete file: name, checksum, size, inode and ctime.
#include "pipeline/output_lock.hpp"

#include <array>
#include <ctime>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/text.hpp"
#include "pipeline/output_files.hpp"

namespace fovea::pipeline {
namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * kNanoseconds + time.tv_nsec;
}

}  // namespace

io::OpenedFile lock_shared(const io::Folder& folder) {
  if (!folder.has(kLockFile)) {
    return {};
  }
  io::OpenedFile lock = folder.open_to_read(kLockFile);
  if (!io::try_lock(lock.file, io::Sharing::kShared, folder / kLockFile)) {
    fail("{}: another run is writing to this folder; wait for it",
         io::escape(folder.path().native()));
  }
  return lock;
}

OutputLock::OutputLock(std::shared_ptr<const io::Folder> folder)
    : folder_(std::move(folder)), lock_(*folder_, kLockFile, [&] {
        fail("{}: another run is writing to this folder; wait for it or choose another output",
             io::escape(folder_->path().native()));
      }) {
  load();
}

OutputLock::~OutputLock() {
  try {
    flush();
  } catch (const Error&) {
    return;  // the next run reads files again that are not recorded
  }
}

OutputLock::Entry OutputLock::make_entry(const struct stat& info, std::uint64_t sum) {
  return {.sum = sum,
          .size = static_cast<std::uint64_t>(info.st_size),
          .inode = info.st_ino,
          .changed_ns = nanoseconds(info.st_ctim)};
}

void OutputLock::load() {
  constexpr std::size_t kMaxBytes = std::size_t{256} << 20;  // enough for millions of files
  std::string text;
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t read_bytes =
        ::pread(lock_.file().get(), piece.data(), piece.size(), static_cast<off_t>(text.size()));
    if (read_bytes <= 0 || text.size() > kMaxBytes) {
      break;
    }
    text.append(piece.data(), static_cast<std::size_t>(read_bytes));
  }
  end_ = text.size();
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  std::string name;
  Entry entry;
  while (lines >> name >> std::hex >> entry.sum >> std::dec >> entry.size >> entry.inode >>
         entry.changed_ns) {
    entries_[name] = entry;
  }
}

bool OutputLock::is_recorded(const std::string& name, std::uint64_t sum) const {
  const auto entry = entries_.find(name);
  const auto info = folder_->examine(name);
  return entry != entries_.end() && info && entry->second == make_entry(*info, sum);
}

void OutputLock::record(const std::string& name, std::uint64_t sum, const struct stat& info) {
  if (!is_recorded(name, sum)) {
    pending_.emplace_back(name, make_entry(info, sum));
  }
}

void OutputLock::record(const OutputLayout& layout, const FileRecord& file) {
  const auto add = [&](const std::string& name, std::uint64_t sum) {
    if (const auto info = folder_->examine(name)) {
      record(name, sum, *info);
    }
  };
  add(layout.data_file(file.number), file.data_sum);
  if (layout.has_index()) {
    add(layout.index_file(file.number), file.index_sum);
  }
}

void OutputLock::flush() {
  decltype(pending_) later;
  std::string text;
  for (auto& [name, entry] : pending_) {
    const auto info = folder_->examine(name);
    if (!info || make_entry(*info, entry.sum) != entry) {
      continue;  // the file was changed after it was recorded
    }
    // File systems take time stamps from this clock, which advances in steps of milliseconds. Until
    // the next step, another change of the file would get the same time stamp.
    timespec now{};
    if (::clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0 || nanoseconds(now) <= entry.changed_ns) {
      later.emplace_back(std::move(name), entry);
      continue;
    }
    text += fmt::format("{} {:x} {} {} {}\n", name, entry.sum, entry.size, entry.inode,
                        entry.changed_ns);
    entries_[name] = entry;
  }
  pending_ = std::move(later);
  write(text);
}

void OutputLock::write(const std::string& text) {
  // A failure, such as a full disk, is ignored: it only makes the next run slower.
  const ssize_t written =
      ::pwrite(lock_.file().get(), text.data(), text.size(), static_cast<off_t>(end_));
  end_ += written > 0 ? static_cast<std::uint64_t>(written) : 0;
}

void OutputLock::clear() {
  entries_.clear();
  pending_.clear();
  end_ = ::ftruncate(lock_.file().get(), 0) == 0 ? 0 : end_;
}

}  // namespace fovea::pipeline
