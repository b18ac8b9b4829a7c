// Feeds that read files and memory, and a feed that decompresses the data of another.
#include "pipeline/archive_feed.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <unistd.h>

#include "core/error.hpp"
#include "pipeline/unpacker.hpp"

namespace fovea::pipeline {
namespace {

class FileFeed final : public ArchiveFeed {
 public:
  explicit FileFeed(const std::string& path) : opened_(io::open_regular_file(path)) {}

  [[nodiscard]] std::uint64_t size() const override {
    return static_cast<std::uint64_t>(opened_.info.st_size);
  }
  [[nodiscard]] std::optional<io::FileStamp> stamp() const override {
    return io::file_stamp(opened_.info);
  }
  la_ssize_t read(archive* reader, const void** data) override {
    ssize_t read_bytes = 0;
    do {
      read_bytes = ::pread(opened_.file.get(), buffer_.data(), buffer_.size(), position_);
    } while (read_bytes < 0 && errno == EINTR);
    if (read_bytes < 0) {
      archive_set_error(reader, errno, "cannot read: %s", std::strerror(errno));
      return ARCHIVE_FATAL;
    }
    position_ += read_bytes;
    *data = buffer_.data();
    return read_bytes;
  }
  la_int64_t skip(la_int64_t request) override {
    const la_int64_t step = std::clamp<la_int64_t>(opened_.info.st_size - position_, 0, request);
    position_ += step;
    return step;
  }

 private:
  io::OpenedFile opened_;
  off_t position_ = 0;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(std::size_t{128} << 10);
};

class MemoryFeed final : public ArchiveFeed {
 public:
  explicit MemoryFeed(std::span<const std::byte> bytes) : size_(bytes.size()), rest_(bytes) {}

  [[nodiscard]] std::uint64_t size() const override { return size_; }
  la_ssize_t read(archive* /*reader*/, const void** data) override {
    *data = rest_.data();
    return static_cast<la_ssize_t>(std::exchange(rest_, {}).size());
  }
  la_int64_t skip(la_int64_t /*request*/) override { return 0; }

 private:
  std::uint64_t size_;
  std::span<const std::byte> rest_;
};

/// Decompresses the data of another feed, or passes it on when its first bytes show that it is not
/// compressed. Does not read data after the last stream.
class UnpackingFeed final : public ArchiveFeed {
 public:
  explicit UnpackingFeed(std::unique_ptr<ArchiveFeed> stored) : stored_(std::move(stored)) {}

  [[nodiscard]] std::uint64_t size() const override { return stored_->size(); }
  [[nodiscard]] std::optional<io::FileStamp> stamp() const override { return stored_->stamp(); }
  [[nodiscard]] bool is_compressed() const override { return !buffer_.empty(); }

  la_ssize_t read(archive* reader, const void** data) override {
    if (is_plain_) {
      return stored_->read(reader, data);
    }
    try {
      if (!begun_ && !begin(reader)) {
        *data = in_.data();
        return static_cast<la_ssize_t>(in_.size());
      }
      return read_unpacked(reader, data);
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      archive_set_error(reader, EILSEQ, "%s", error.what());
      return ARCHIVE_FATAL;
    }
  }
  la_int64_t skip(la_int64_t request) override { return is_plain_ ? stored_->skip(request) : 0; }

 private:
  // Detects the compression. Returns false for an uncompressed archive, whose first bytes stay in
  // `in_`.
  bool begin(archive* reader) {
    begun_ = true;
    refill(reader);
    unpacker_ = make_unpacker(in_);
    is_plain_ = unpacker_ == nullptr;
    if (!is_plain_) {
      buffer_.resize(kPieceBytes);
    }
    return !is_plain_;
  }

  la_ssize_t read_unpacked(archive* reader, const void** data) {
    std::span<std::byte> out(buffer_);
    while (!out.empty() && pending_error_.empty() && unpacker_) {
      try {
        unpack(reader, out);
      } catch (const Error& error) {
        rethrow_unless_finding(error);
        pending_error_ = error.what();
      }
    }
    const std::size_t read_bytes = buffer_.size() - out.size();
    if (read_bytes == 0 && !pending_error_.empty()) {
      fail("{}", pending_error_);
    }
    *data = buffer_.data();
    return static_cast<la_ssize_t>(read_bytes);
  }

  void unpack(archive* reader, std::span<std::byte>& out) {
    const std::size_t size_before = out.size();
    const bool is_at_end = unpacker_->step(in_, out);
    empty_streams_ = out.size() < size_before ? 0 : empty_streams_ + (is_at_end ? 1 : 0);
    // Archives have no empty streams, and a hostile file could waste much time with them.
    if (empty_streams_ > kMaxEmptyStreams) {
      fail("the {} data has more than {} empty streams", unpacker_->format(), kMaxEmptyStreams);
    }
    if (is_at_end) {
      start_next(reader);
    } else if (in_.empty() && out.size() == size_before && !refill(reader)) {
      fail("the {} data is cut short", unpacker_->format());
    }
  }

  void start_next(archive* reader) {
    skip_zeros();
    for (int pieces = 0; in_.size() < kMagicBytes && pieces < kMaxPieces; ++pieces) {
      const std::vector<std::byte> rest(in_.begin(), in_.end());
      if (!refill(reader)) {
        break;
      }
      joined_ = rest;
      joined_.insert(joined_.end(), in_.begin(), in_.end());
      in_ = joined_;
      skip_zeros();
    }
    unpacker_ = make_unpacker(in_);
  }

  // Skips the zeros between streams, with which xz and tape programs pad their output.
  void skip_zeros() {
    while (!in_.empty() && in_.front() == std::byte{0}) {
      in_ = in_.subspan(1);
    }
  }

  // Reads more compressed data. Returns false at the end and leaves `in_` unchanged then.
  bool refill(archive* reader) {
    const void* data = nullptr;
    const la_ssize_t read_bytes = stored_->read(reader, &data);
    if (read_bytes < 0) {
      fail("{}", archive_error_string(reader));
    }
    if (read_bytes > 0) {
      in_ = {static_cast<const std::byte*>(data), static_cast<std::size_t>(read_bytes)};
    }
    return read_bytes > 0;
  }

  static constexpr std::size_t kPieceBytes = std::size_t{128} << 10;
  static constexpr std::size_t kMagicBytes = 6;
  static constexpr int kMaxPieces = 8;  // read at most to skip zeros between streams
  static constexpr int kMaxEmptyStreams = 1024;

  std::unique_ptr<ArchiveFeed> stored_;
  bool begun_ = false;
  bool is_plain_ = false;
  std::span<const std::byte> in_;       // compressed data not unpacked yet
  std::unique_ptr<Unpacker> unpacker_;  // null after the last stream
  int empty_streams_ = 0;               // number of consecutive empty streams
  std::string pending_error_;           // reported once the data before it is read
  std::vector<std::byte> joined_;       // holds `in_` when a stream begins across two pieces
  std::vector<std::byte> buffer_;
};

}  // namespace

std::unique_ptr<ArchiveFeed> file_feed(const std::string& path) {
  return std::make_unique<UnpackingFeed>(std::make_unique<FileFeed>(path));
}

std::unique_ptr<ArchiveFeed> memory_feed(std::span<const std::byte> bytes) {
  return std::make_unique<UnpackingFeed>(std::make_unique<MemoryFeed>(bytes));
}

}  // namespace fovea::pipeline
