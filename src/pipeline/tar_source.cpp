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
  /// Opens the file at the first next() when there is no `feed`, so that a failure is an item.
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
    if (thrown_) {
      std::rethrow_exception(thrown_);
    }
    const char* text = archive_error_string(archive_.get());
    fail("cannot {}: {}{}", action, io::escape(text != nullptr ? text : "damaged archive"),
         last_.empty() ? "" : fmt::format("; what follows \"{}\" is lost", io::escape(last_)));
  }

  void open() {
    if (!feed_) {
      feed_ = feed_of_file(name());
    }
    archive_.reset(archive_read_new());
    if (!archive_) {
      fail_for_resources("{}: not enough memory to read the archive", io::escape(name()));
    }
    archive* reader = archive_.get();
    // Data is already decompressed by the feed. These filters detect archives that are compressed
    // twice, which are refused below; libarchive's other filters may run external programs.
    archive_read_support_filter_gzip(reader);
    archive_read_support_filter_bzip2(reader);
    archive_read_support_filter_xz(reader);
    archive_read_support_filter_zstd(reader);
    archive_read_support_format_tar(reader);
    // No exception may pass through libarchive, which is C.
    archive_read_set_read_callback(reader,
                                   [](archive* a, void* self, const void** data) -> la_ssize_t {
                                     auto* const source = static_cast<TarSource*>(self);
                                     try {
                                       return source->feed_->read(a, data);
                                     } catch (...) {
                                       source->thrown_ = std::current_exception();
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
    if (archive_filter_count(reader) > 1) {  // the file itself counts as one
      fail("the archive is compressed more than once; decompress it first");
    }
  }

  // Skips a member that is not wanted, or the rest of one. This costs nothing in an archive that
  // can seek. A compressed one is read block by block, so that a stopped job need not wait for its
  // end.
  void skip_member(StopFlag stop) {
    const void* data = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    while (feed_->is_compressed() &&
           archive_read_data_block(archive_.get(), &data, &size, &offset) == ARCHIVE_OK) {
      stop.poll();
    }
  }

  // Bounds the decompressed size by the archive's size, because a few megabytes can unpack to
  // terabytes of zeros. Positions decide, which are the same whether members are read or skipped.
  void check_expansion(la_int64_t member_size) const {
    constexpr std::uint64_t kAlways = std::uint64_t{1} << 30;
    constexpr std::uint64_t kTimes = 100;
    if (!feed_->is_compressed()) {
      return;
    }
    const auto position = static_cast<std::uint64_t>(
        std::max<la_int64_t>(archive_read_header_position(archive_.get()), 0));
    const auto member = static_cast<std::uint64_t>(std::max<la_int64_t>(member_size, 0));
    const std::uint64_t limit = kAlways + kTimes * feed_->size();
    if (position > limit || member > limit - position) {
      fail(
          "its members take more than {} times the {} bytes of the archive, up to \"{}\"; it and "
          "what follows are lost",
          kTimes, feed_->size(), io::escape(last_));
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
      // A warning concerns a name or attribute that does not convert; the member itself is usable.
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
        fail_archive("read the archive");
      }
      const char* path = archive_entry_pathname(entry);
      if (path == nullptr) {
        fail("a member's name cannot be read{}",
             last_.empty() ? "" : fmt::format(" after \"{}\"", io::escape(last_)));
      }
      last_ = path;
      in_member_ = true;
      size_ = archive_entry_size(entry);
      check_expansion(size_);
      const auto type = archive_entry_filetype(entry);
      const char* link = archive_entry_hardlink(entry);
      if (link == nullptr && type == AE_IFDIR) {
        continue;
      }
      if (members_ && !members_->contains(last_)) {
        continue;
      }
      if (const std::string_view kind = members_ ? "" : filter_.member(last_, wanted(last_));
          !kind.empty()) {
        if (left_out_ != nullptr) {
          left_out_->add_member(kind, last_);
        }
        continue;
      }
      item = Item{};
      item.kind = Item::Kind::kBytes;
      item.name = name() + "#" + last_;
      item.file = feed_->stamp();
      if (link != nullptr || type != AE_IFREG) {
        item = failed_item(std::move(item.name), why_no_file(*entry));
      }
      return true;
    }
  }

  // Reads to the end of compressed data, since its checksum lies after the end of the tar archive.
  void check_end(StopFlag stop) const {
    constexpr la_ssize_t kMaxPadding = la_ssize_t{1} << 20;
    la_ssize_t got = 0;
    for (la_ssize_t all = 0; feed_->is_compressed() && all < kMaxPadding; all += got) {
      stop.poll();
      const void* data = nullptr;
      got = feed_->read(archive_.get(), &data);
      if (got < 0) {
        fail("cannot read the archive to its end: {}; its members were read, but may be damaged",
             io::escape(archive_error_string(archive_.get())));
      }
      if (got == 0) {
        return;
      }
    }
  }

  // Links have no content of their own, and their targets may be anywhere.
  static std::string why_no_file(archive_entry& entry) {
    const auto name_of = [](const char* target) {
      return io::escape(target == nullptr ? "" : target);
    };
    if (const char* target = archive_entry_hardlink(&entry); target != nullptr) {
      return fmt::format(
          "is a hard link to \"{}\" of the same archive; make the archive with tar "
          "--hard-dereference, or extract it and name the folder",
          name_of(target));
    }
    if (archive_entry_filetype(&entry) == AE_IFLNK) {
      return fmt::format(
          "is a symbolic link to \"{}\"; make the archive with tar --dereference, or extract it "
          "and name the folder",
          name_of(archive_entry_symlink(&entry)));
    }
    return "is not a regular file";
  }

  [[nodiscard]] bool wanted(std::string_view path) const {
    const std::string_view base = path.substr(path.find_last_of('/') + 1);
    if (image_key_.empty()) {
      return kind_of(base) == kImageKind;
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
    const auto size = static_cast<std::size_t>(std::max<la_int64_t>(size_, 0));
    item.memory = take_encoded(size, limits);
    // The header may claim any size, so memory grows with the bytes that really come.
    constexpr std::size_t kChunk = std::size_t{1} << 20;
    std::size_t have = 0;
    for (;;) {
      limits.stop.poll();
      bytes.resize(have + std::clamp<std::size_t>(size - have, 1, kChunk));
      const la_ssize_t got =
          archive_read_data(archive_.get(), bytes.data() + have, bytes.size() - have);
      if (got < 0) {
        if (thrown_) {
          std::rethrow_exception(thrown_);
        }
        const char* text = archive_error_string(archive_.get());
        fail("cannot read the member: {}", io::escape(text != nullptr ? text : "damaged archive"));
      }
      if (got == 0) {
        break;
      }
      have += static_cast<std::size_t>(got);
      if (have > size) {
        fail("holds more than the {} bytes stated in its header", size);
      }
    }
    bytes.resize(have);
    if (have == 0) {
      fail("the member is empty");
    }
  }

  std::string image_key_;
  FileFilter filter_;
  std::optional<std::unordered_set<std::string>> members_;  // those to read, whatever the filter
  LeftOut* left_out_ = nullptr;
  std::unique_ptr<ArchiveFeed> feed_;  // outlives archive_
  Released<archive, archive_read_free> archive_;
  std::exception_ptr thrown_;  // by the feed
  bool in_member_ = false;
  std::string last_;  // the path of the last member that was read
  la_int64_t size_ = 0;
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
                                     feed_of_memory(archive));
}

}  // namespace fovea::pipeline
