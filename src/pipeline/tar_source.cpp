// Images in tar archives, plain or compressed, by libarchive.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/text.hpp"
#include "pipeline/read_file.hpp"
#include "pipeline/source.hpp"

namespace fovea::pipeline {
namespace {

// Feeds libarchive. Its own file reader may seek past the end of a truncated archive and then see
// a clean end; this one never skips further than the file goes, so that every loss is noticed.
class Feed {
 public:
  Feed() = default;
  virtual ~Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  virtual la_ssize_t read(archive* reader, const void** data) = 0;
  virtual la_int64_t skip(la_int64_t request) = 0;
};

class FileFeed final : public Feed {
 public:
  explicit FileFeed(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat info{};
    if (fd_ >= 0 && ::fstat(fd_, &info) == 0) {
      if (!S_ISREG(info.st_mode)) {
        ::close(fd_);
        fail("not a regular file");
      }
      size_ = info.st_size;
    }
  }
  ~FileFeed() override {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  [[nodiscard]] bool open() const { return fd_ >= 0; }

  la_ssize_t read(archive* reader, const void** data) override {
    ssize_t got = 0;
    do {
      got = ::pread(fd_, buffer_.data(), buffer_.size(), at_);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      archive_set_error(reader, errno, "cannot read: %s", std::strerror(errno));
      return ARCHIVE_FATAL;
    }
    at_ += got;
    *data = buffer_.data();
    return got;
  }
  la_int64_t skip(la_int64_t request) override {
    const la_int64_t step = std::clamp<la_int64_t>(size_ - at_, 0, request);
    at_ += step;
    return step;
  }

 private:
  int fd_ = -1;
  off_t size_ = 0;
  off_t at_ = 0;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(std::size_t{128} << 10);
};

class MemoryFeed final : public Feed {
 public:
  explicit MemoryFeed(std::span<const std::byte> bytes) : rest_(bytes) {}

  la_ssize_t read(archive* /*reader*/, const void** data) override {
    *data = rest_.data();
    return static_cast<la_ssize_t>(std::exchange(rest_, {}).size());
  }
  la_int64_t skip(la_int64_t /*request*/) override { return 0; }

 private:
  std::span<const std::byte> rest_;
};

class TarSource final : public Source {
 public:
  TarSource(std::string name, std::string image_key, std::unique_ptr<Feed> feed)
      : name_(std::move(name)), image_key_(std::move(image_key)), feed_(std::move(feed)) {}

  /// Opens the file at the first next(), so that a failure is an item like any other.
  TarSource(std::string path, std::string image_key)
      : TarSource(std::move(path), std::move(image_key), nullptr) {}

  bool next(Item& item) override {
    if (ended_) {
      return false;
    }
    try {
      if (!archive_) {
        open();
      }
      return next_member(item);
    } catch (const Error& error) {
      ended_ = true;
      archive_.reset();
      item = Item{};
      item.kind = Item::Kind::kFailed;
      item.name = name_;
      item.error = error.what();
      return true;
    }
  }

  void load(Item& item) override {
    if (item.kind != Item::Kind::kBytes) {
      return;
    }
    try {
      read_member(item.bytes);
    } catch (const Error& error) {
      item.kind = Item::Kind::kFailed;
      item.error = error.what();
    }
  }

 private:
  struct Close {
    void operator()(archive* reader) const { archive_read_free(reader); }
  };

  [[noreturn]] void fail_archive(std::string_view action) const {
    const char* text = archive_error_string(archive_.get());
    fail("cannot {}: {}{}", action, io::escape(text != nullptr ? text : "damaged archive"),
         last_.empty() ? "" : fmt::format("; what follows \"{}\" is lost", io::escape(last_)));
  }

  void open() {
    if (!feed_) {
      auto feed = std::make_unique<FileFeed>(name_);
      if (!feed->open()) {
        fail("cannot open: {}", std::strerror(errno));
      }
      feed_ = std::move(feed);
    }
    archive_.reset(archive_read_new());
    if (!archive_) {
      fail("not enough memory to read the archive");
    }
    archive* reader = archive_.get();
    archive_read_support_filter_all(reader);
    archive_read_support_format_tar(reader);
    archive_read_set_read_callback(reader, [](archive* a, void* feed, const void** data) {
      return static_cast<Feed*>(feed)->read(a, data);
    });
    archive_read_set_skip_callback(reader, [](archive* /*a*/, void* feed, la_int64_t request) {
      return static_cast<Feed*>(feed)->skip(request);
    });
    archive_read_set_callback_data(reader, feed_.get());
    if (archive_read_open1(reader) != ARCHIVE_OK) {
      fail_archive("read as a tar archive");
    }
  }

  bool next_member(Item& item) {
    for (;;) {
      archive_entry* entry = nullptr;
      const int result = archive_read_next_header(archive_.get(), &entry);
      if (result == ARCHIVE_EOF) {
        ended_ = true;
        archive_.reset();
        return false;
      }
      // A warning is about a name or attribute that does not convert; the member is there.
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
        fail_archive("read the archive");
      }
      const char* path = archive_entry_pathname(entry);
      if (path == nullptr) {
        fail("a member's name cannot be read{}",
             last_.empty() ? "" : fmt::format(" after \"{}\"", io::escape(last_)));
      }
      last_ = path;
      if (archive_entry_filetype(entry) != AE_IFREG || !wanted(last_)) {
        continue;
      }
      item = Item{};
      item.kind = Item::Kind::kBytes;
      item.name = name_ + "#" + last_;
      size_ = archive_entry_size(entry);
      return true;
    }
  }

  [[nodiscard]] bool wanted(std::string_view path) const {
    const std::string_view base = path.substr(path.find_last_of('/') + 1);
    if (base.starts_with("._")) {  // a macOS resource fork
      return false;
    }
    if (image_key_.empty()) {
      return has_image_extension(base);
    }
    const std::size_t dot = base.find('.');
    const std::string_view key = dot == std::string_view::npos ? "" : base.substr(dot + 1);
    for (std::string_view rest = image_key_; !rest.empty();) {
      const std::size_t end = std::min(rest.find(';'), rest.size());
      if (rest.substr(0, end) == key) {
        return true;
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
  }

  void read_member(std::vector<std::byte>& bytes) const {
    if (size_ > static_cast<la_int64_t>(kMaxEncodedBytes)) {
      fail("holds more than {} bytes: too large for an image", kMaxEncodedBytes);
    }
    // The header's size is a claim: memory grows with what is really there.
    constexpr std::size_t kChunk = std::size_t{1} << 20;
    std::size_t have = 0;
    for (;;) {
      const auto rest = static_cast<std::size_t>(std::max<la_int64_t>(size_, 0)) - have;
      bytes.resize(have + std::clamp<std::size_t>(rest, 1, kChunk));
      const la_ssize_t got =
          archive_read_data(archive_.get(), bytes.data() + have, bytes.size() - have);
      if (got < 0) {
        const char* text = archive_error_string(archive_.get());
        fail("cannot read the member: {}", io::escape(text != nullptr ? text : "damaged archive"));
      }
      if (got == 0) {
        break;
      }
      have += static_cast<std::size_t>(got);
    }
    bytes.resize(have);
    if (have == 0) {
      fail("the member is empty");
    }
  }

  std::string name_;
  std::string image_key_;
  std::unique_ptr<Feed> feed_;  // outlives archive_
  std::unique_ptr<archive, Close> archive_;
  std::string last_;  // path of the last member seen
  la_int64_t size_ = 0;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<Source> make_tar_source(std::string path, std::string image_key) {
  return std::make_unique<TarSource>(std::move(path), std::move(image_key));
}

std::unique_ptr<Source> make_tar_source(std::string name, std::span<const std::byte> archive,
                                        std::string image_key) {
  return std::make_unique<TarSource>(std::move(name), std::move(image_key),
                                     std::make_unique<MemoryFeed>(archive));
}

}  // namespace fovea::pipeline
