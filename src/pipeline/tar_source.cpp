// Lists images in tar archives, plain or compressed, through libarchive.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <archive.h>
#include <archive_entry.h>

#include "core/error.hpp"
#include "core/released.hpp"
#include "io/descriptor.hpp"
#include "io/text.hpp"
#include "pipeline/archive_feed.hpp"
#include "pipeline/file_kinds.hpp"
#include "pipeline/read_file.hpp"
#include "pipeline/source.hpp"

namespace fovea::pipeline {
namespace {

class TarSource final : public Source {
 public:
  /// Opens the file at the first next() when `feed` is null, so that a failure becomes an item.
  TarSource(std::string name, std::string image_key, FileFilter filter, LeftOut* left_out,
            std::unique_ptr<ArchiveFeed> feed = nullptr)
      : Source(std::move(name)),
        image_key_(std::move(image_key)),
        filter_(std::move(filter)),
        left_out_(left_out),
        feed_(std::move(feed)) {}

  TarSource(std::string name, std::unordered_set<std::string> members)
      : Source(std::move(name)), members_(std::move(members)) {}

 private:
  bool do_next(Item& item, StopFlag stop) override {
    if (!archive_) {
      open();
    }
    return next_member(item, stop);
  }

  void do_load(Item& item, const Limits& limits) override {
    if (item.kind != Item::Kind::kBytes) {
      return;
    }
    try {
      read_member(item, limits);
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      item = failed_item(std::move(item.name), error.what());
    }
  }

  [[noreturn]] void fail_archive(std::string_view action) const {
    if (feed_error_) {
      std::rethrow_exception(feed_error_);
    }
    const char* text = archive_error_string(archive_.get());
    fail("cannot {}: {}{}", action, io::escape(text != nullptr ? text : "damaged archive"),
         last_path_.empty()
             ? ""
             : fmt::format("; all members after \"{}\" are lost", io::escape(last_path_)));
  }

  void open() {
    if (!feed_) {
      feed_ = file_feed(name());
    }
    archive_.reset(archive_read_new());
    if (!archive_) {
      fail_for_resources("{}: not enough memory to read the archive", io::escape(name()));
    }
    archive* reader = archive_.get();
    // The feed already decompresses the data. These filters detect archives that are compressed
    // twice, which are refused below. Other filters of libarchive may run external programs.
    archive_read_support_filter_gzip(reader);
    archive_read_support_filter_bzip2(reader);
    archive_read_support_filter_xz(reader);
    archive_read_support_filter_zstd(reader);
    archive_read_support_format_tar(reader);
    // Exceptions must not pass through libarchive, which is written in C.
    archive_read_set_read_callback(reader,
                                   [](archive* a, void* self, const void** data) -> la_ssize_t {
                                     auto* const source = static_cast<TarSource*>(self);
                                     try {
                                       return source->feed_->read(a, data);
                                     } catch (...) {
                                       source->feed_error_ = std::current_exception();
                                       archive_set_error(a, ENOMEM, "the read failed");
                                       return ARCHIVE_FATAL;
                                     }
                                   });
    archive_read_set_skip_callback(reader, [](archive* /*a*/, void* self, la_int64_t request) {
      return static_cast<TarSource*>(self)->feed_->skip(request);
    });
    archive_read_set_callback_data(reader, this);
    if (archive_read_open1(reader) != ARCHIVE_OK) {
      fail_archive("read as a tar archive");
    }
    if (archive_filter_count(reader) > 1) {  // reading the file counts as a filter
      fail("the archive is compressed more than once; decompress it first");
    }
  }

  // Skips the rest of a member. libarchive seeks in an uncompressed archive. A compressed one is
  // read block by block here, so that a stopped job does not wait for the end of the member.
  void skip_member(StopFlag stop) {
    const void* data = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    while (feed_->is_compressed() &&
           archive_read_data_block(archive_.get(), &data, &size, &offset) == ARCHIVE_OK) {
      stop.poll();
    }
  }

  // Limits the decompressed size relative to that of the archive, because a few megabytes can
  // unpack to terabytes of zeros. The check uses positions, so that it also covers members that are
  // skipped.
  void check_expansion(la_int64_t member_size) const {
    constexpr std::uint64_t kMinLimit = std::uint64_t{1} << 30;
    constexpr std::uint64_t kMaxRatio = 100;
    if (!feed_->is_compressed()) {
      return;
    }
    const auto position = static_cast<std::uint64_t>(
        std::max<la_int64_t>(archive_read_header_position(archive_.get()), 0));
    const auto member = static_cast<std::uint64_t>(std::max<la_int64_t>(member_size, 0));
    const std::uint64_t limit = kMinLimit + kMaxRatio * feed_->size();
    if (position > limit || member > limit - position) {
      fail(
          "the members up to \"{}\" take more than {} times the {} bytes of the archive; this one "
          "and all that follow are not read",
          io::escape(last_path_), kMaxRatio, feed_->size());
    }
  }

  bool next_member(Item& item, StopFlag stop) {
    for (;;) {
      stop.poll();
      if (in_member_) {
        skip_member(stop);
      }
      archive_entry* entry = nullptr;
      const int result = archive_read_next_header(archive_.get(), &entry);
      if (result == ARCHIVE_EOF) {
        check_end(stop);
        return false;
      }
      // A warning concerns a name or attribute that cannot be converted; the member itself is
      // usable.
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
        fail_archive("read the archive");
      }
      const char* path = archive_entry_pathname(entry);
      if (path == nullptr) {
        fail("cannot read the name of the next member{}",
             last_path_.empty() ? "" : fmt::format(" after \"{}\"", io::escape(last_path_)));
      }
      last_path_ = path;
      in_member_ = true;
      member_size_ = archive_entry_size(entry);
      check_expansion(member_size_);
      const auto type = archive_entry_filetype(entry);
      const char* link = archive_entry_hardlink(entry);
      if (link == nullptr && type == AE_IFDIR) {
        continue;
      }
      if (members_ && !members_->contains(last_path_)) {
        continue;
      }
      if (const std::string_view kind =
              members_ ? "" : filter_.member(last_path_, is_image(last_path_));
          !kind.empty()) {
        if (left_out_ != nullptr) {
          left_out_->add_member(kind, last_path_);
        }
        continue;
      }
      item = Item{};
      item.kind = Item::Kind::kBytes;
      item.name = name() + "#" + last_path_;
      item.file = feed_->stamp();
      if (link != nullptr || type != AE_IFREG) {
        item = failed_item(std::move(item.name), link_error(*entry));
      }
      return true;
    }
  }

  // Reads compressed data to its end, since its checksum comes after the end of the tar archive.
  void check_end(StopFlag stop) const {
    constexpr la_ssize_t kMaxPadding = la_ssize_t{1} << 20;
    la_ssize_t read_bytes = 0;
    for (la_ssize_t all = 0; feed_->is_compressed() && all < kMaxPadding; all += read_bytes) {
      stop.poll();
      const void* data = nullptr;
      read_bytes = feed_->read(archive_.get(), &data);
      if (read_bytes < 0) {
        fail("cannot read the archive to its end: {}; its members were read, but may be damaged",
             io::escape(archive_error_string(archive_.get())));
      }
      if (read_bytes == 0) {
        return;
      }
    }
  }

  // Explains why a member is not read. Links have no content, and their targets may be anywhere.
  static std::string link_error(archive_entry& entry) {
    const auto target_name = [](const char* target) {
      return io::escape(target == nullptr ? "" : target);
    };
    if (const char* target = archive_entry_hardlink(&entry); target != nullptr) {
      return fmt::format(
          "is a hard link to \"{}\" of the same archive; make the archive with tar "
          "--hard-dereference, or extract it and name the folder",
          target_name(target));
    }
    if (archive_entry_filetype(&entry) == AE_IFLNK) {
      return fmt::format(
          "is a symbolic link to \"{}\"; make the archive with tar --dereference, or extract it "
          "and name the folder",
          target_name(archive_entry_symlink(&entry)));
    }
    return "is not a regular file";
  }

  [[nodiscard]] bool is_image(std::string_view path) const {
    const std::string_view base = path.substr(path.find_last_of('/') + 1);
    if (image_key_.empty()) {
      return file_kind(base) == kImageKind;
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

  void read_member(Item& item, const Limits& limits) const {
    std::vector<std::byte>& bytes = item.bytes;
    const auto size = static_cast<std::size_t>(std::max<la_int64_t>(member_size_, 0));
    item.memory = take_encoded(size, limits);
    // The header may claim any size, so the buffer grows only with the bytes that are read.
    constexpr std::size_t kChunk = std::size_t{1} << 20;
    std::size_t bytes_read = 0;
    for (;;) {
      limits.stop.poll();
      bytes.resize(bytes_read + std::clamp<std::size_t>(size - bytes_read, 1, kChunk));
      const la_ssize_t result =
          archive_read_data(archive_.get(), bytes.data() + bytes_read, bytes.size() - bytes_read);
      if (result < 0) {
        if (feed_error_) {
          std::rethrow_exception(feed_error_);
        }
        const char* text = archive_error_string(archive_.get());
        fail("cannot read the member: {}", io::escape(text != nullptr ? text : "damaged archive"));
      }
      if (result == 0) {
        break;
      }
      bytes_read += static_cast<std::size_t>(result);
      if (bytes_read > size) {
        fail("the member has more than the {} bytes that its header states", size);
      }
    }
    bytes.resize(bytes_read);
    if (bytes_read == 0) {
      fail("the member is empty");
    }
  }

  std::string image_key_;
  FileFilter filter_;
  std::optional<std::unordered_set<std::string>> members_;  // if set, replaces the filter
  LeftOut* left_out_ = nullptr;
  std::unique_ptr<ArchiveFeed> feed_;  // outlives archive_
  Released<archive, archive_read_free> archive_;
  std::exception_ptr feed_error_;  // an exception that the feed threw
  bool in_member_ = false;
  std::string last_path_;  // the path of the last member whose header was read
  la_int64_t member_size_ = 0;
};

}  // namespace

std::unique_ptr<Source> make_tar_source(std::string path, std::string image_key, FileFilter filter,
                                        LeftOut* left_out) {
  return std::make_unique<TarSource>(std::move(path), std::move(image_key), std::move(filter),
                                     left_out);
}

std::unique_ptr<Source> make_tar_source(std::string path, std::unordered_set<std::string> members) {
  return std::make_unique<TarSource>(std::move(path), std::move(members));
}

std::unique_ptr<Source> make_tar_source(std::string name, std::span<const std::byte> archive,
                                        std::string image_key) {
  return std::make_unique<TarSource>(std::move(name), std::move(image_key), FileFilter(), nullptr,
                                     memory_feed(archive));
}

}  // namespace fovea::pipeline
