// Downloads with resume: the partial file is the only state, so that a killed pull can resume.
#include "hub/download.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "hub/digest.hpp"
#include "io/descriptor.hpp"
#include "io/text.hpp"
#include "io/write_all.hpp"

namespace fovea::hub {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds kFirstWait{250};
constexpr std::chrono::milliseconds kMaxWait{8000};  // a multiple of kFirstWait

fs::path partial_path(const fs::path& blob) {
  fs::path partial = blob;
  partial += ".incomplete";
  return partial;
}

// Waits longer after every consecutive failure.
void wait_before_retry(int failures, const std::string& reason, const DownloadReport& report) {
  const auto wait = std::min(kMaxWait, kFirstWait * (1 << std::min(failures - 1, 10)));
  report.notice(fmt::format("{}; trying again in {} ms", reason, wait.count()));
  for (auto remaining = wait; remaining.count() > 0; remaining -= kFirstWait) {
    report.alive();
    std::this_thread::sleep_for(kFirstWait);
  }
}

// The file that a download appends to. Its size is the offset at which a download resumes.
class PartialFile {
 public:
  explicit PartialFile(fs::path path) : path_(std::move(path)) {
    // O_NOFOLLOW: another user with access to the cache must not redirect the output by a link.
    file_ = io::Descriptor(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    struct stat status{};
    if (!file_.open() || ::fstat(file_.get(), &status) != 0) {
      fail_with_errno("open");
    }
    if (!S_ISREG(status.st_mode)) {
      fail("{}: not a regular file; remove it", io::escape(path_.native()));
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const fs::path& path() const { return path_; }

  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written =
          ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (written < 0) {
        if (errno == EINTR) {
          continue;
        }
        fail_with_errno("write");
      }
      size_ += static_cast<std::uint64_t>(written);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void clear() {
    if (::ftruncate(file_.get(), 0) != 0) {
      fail_with_errno("empty");
    }
    size_ = 0;
  }

  void remove() { ::unlink(path_.c_str()); }

  void sync() {
    if (!io::is_synced(::fsync(file_.get()))) {
      fail_with_errno("sync");
    }
  }

 private:
  [[noreturn]] void fail_with_errno(std::string_view action) const {
    const int code = errno;
    std::string_view advice;
    if (code == ENOSPC || code == EDQUOT) {
      advice =
          "; free some space (or set HF_HUB_CACHE to another disk) and run the pull again: it "
          "resumes where it stopped";
    } else if (code == ELOOP) {
      advice = "; symbolic links are not followed here: remove it";
    }
    fail("{}: cannot {}: {}{}", io::escape(path_.native()), action, std::strerror(code), advice);
  }

  fs::path path_;
  io::Descriptor file_;
  std::uint64_t size_ = 0;
};

// Checks the reply to a request for the bytes from `offset` on, before any of it is stored.
// Returns where its body begins: at `offset`, or at 0 when the server ignores ranges.
std::uint64_t body_start(const HttpResponse& response, const RemoteFile& file,
                         std::uint64_t offset) {
  std::uint64_t start = 0;
  if (response.status == 206) {
    const std::string range = response.header("content-range");
    if (!range.starts_with(fmt::format("bytes {}-", offset))) {
      fail("{}: requested the bytes from {} on, but the server sent \"{}\"", file.name, offset,
           io::escape(range));
    }
    start = offset;
  }
  const std::int64_t length = response.content_length();
  if (length >= 0 && start + static_cast<std::uint64_t>(length) != file.size) {
    fail(
        "{}: the hub states {} bytes, but the server's reply makes it {}: run the pull again "
        "later, or look for a proxy between this machine and the hub",
        file.name, file.size, start + static_cast<std::uint64_t>(length));
  }
  return start;
}

// Sends one request for the missing bytes. Returns when the server ended its reply without an
// error, even if bytes are missing.
void fetch_rest(HttpClient& client, const RemoteFile& file, PartialFile& partial,
                const DownloadReport& report) {
  const std::uint64_t offset = partial.size();
  bool has_body = false;
  const HttpResponse response = client.get(
      file.url, offset, [&](const HttpResponse& reply, std::span<const std::byte> bytes) {
        if (!has_body) {
          has_body = true;
          if (body_start(reply, file, offset) != offset) {
            report.notice(file.name +
                          ": the server cannot resume a download; starting from the first byte");
            partial.clear();
          }
        }
        if (bytes.size() > file.size - partial.size()) {
          partial.remove();
          fail(
              "{}: the server sent more than the {} bytes that the hub states; the file was "
              "deleted",
              file.name, file.size);
        }
        partial.append(bytes);
        report.bytes(partial.size(), bytes.size());
      });
  if (response.status == 416) {  // the server's file is not longer than the partial file
    partial.clear();
    throw TransientError(fmt::format("{}: the server has no bytes from {} on", file.name, offset));
  }
  if (response.status != 200 && response.status != 206) {
    fail_with_status(response, file.name);
  }
}

void fetch_all(HttpClient& client, const RemoteFile& file, PartialFile& partial, int retries,
               const DownloadReport& report) {
  std::uint64_t max_size = partial.size();
  int failures = 0;
  while (partial.size() < file.size) {
    std::string reason;
    bool is_reply_complete = false;
    try {
      fetch_rest(client, file, partial, report);
      is_reply_complete = true;
      reason = fmt::format("{}: the server stopped after {} of {} bytes", file.name, partial.size(),
                           file.size);
    } catch (const TransientError& error) {
      reason = error.what();
    }
    if (partial.size() >= file.size) {
      break;
    }
    // Only new bytes count as progress, and a few bytes per connection do not: a server without
    // ranges, or one that sends very slowly, could otherwise keep a pull running forever.
    failures = partial.size() >= max_size + kMinProgressBytes ? 1 : failures + 1;
    max_size = std::max(max_size, partial.size());
    if (failures > retries) {
      if (is_reply_complete) {
        partial.remove();
        fail("{}: expected {} bytes, got {}; the file was deleted", file.name, file.size,
             partial.size());
      }
      fail(
          "{}. The pull gave up after {} attempts at {} of {} bytes; run it again to resume from "
          "there",
          reason, failures, partial.size(), file.size);
    }
    wait_before_retry(failures, reason, report);
  }
}

}  // namespace

void with_retries(int retries, const DownloadReport& report, const std::function<void()>& request) {
  for (int failures = 1;; ++failures) {
    try {
      request();
      return;
    } catch (const TransientError& error) {
      if (failures > retries) {
        fail(
            "{}. The pull gave up after {} attempts; check the network and HF_ENDPOINT, then run "
            "it again",
            error.what(), failures);
      }
      wait_before_retry(failures, error.what(), report);
    }
  }
}

std::uint64_t local_bytes(const fs::path& blob) {
  for (const fs::path& path : {blob, partial_path(blob)}) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(path, error);
    if (!error) {
      return size;
    }
  }
  return 0;
}

void download(HttpClient& client, const RemoteFile& file, const fs::path& blob, int retries,
              const DownloadReport& report) {
  PartialFile partial(partial_path(blob));
  if (partial.size() > file.size) {
    partial.clear();
  }
  std::uint64_t resumed_at = partial.size();
  if (resumed_at > 0) {
    report.notice(fmt::format("{}: resuming at byte {}", file.name, resumed_at));
  }
  for (;;) {
    fetch_all(client, file, partial, retries, report);
    const std::string hash = hash_file(partial.path(), file.etag, report.alive);
    if (hash == file.etag) {
      break;
    }
    if (resumed_at == 0) {
      partial.remove();
      fail("{}: expected {} {}, got {}; the file was deleted, run the pull again", file.name,
           hash_name(file.etag), file.etag, hash);
    }
    // The partial file may come from another version of the file: download it again, once.
    report.notice(file.name +
                  ": the bytes of an earlier pull are damaged; starting again from the first byte");
    partial.clear();
    resumed_at = 0;
  }
  partial.sync();
  std::error_code error;
  fs::rename(partial.path(), blob, error);
  if (error) {
    fail("{}: cannot move the finished file into place: {}", io::escape(blob.native()),
         error.message());
  }
}

}  // namespace fovea::hub
