// StoredFile over pread(2).
#include "pipeline/stored_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::pipeline {

StoredFile::StoredFile(const io::Folder& folder, const std::string& name)
    : shown_(io::escape((folder / name).native())), size_(0) {
  if (!folder.has(name)) {
    fail("{}: is missing", shown_);
  }
  opened_ = folder.open_to_read(name);
  size_ = static_cast<std::uint64_t>(opened_.info.st_size);
}

void StoredFile::read(std::uint64_t from, std::uint64_t to, StopFlag stop,
                      const std::function<void(std::span<const std::byte>)>& take) const {
  constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
  std::vector<std::byte> piece(
      static_cast<std::size_t>(from < to ? std::min(kPieceBytes, to - from) : 0));
  while (from < to) {
    stop.poll();
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), to - from));
    const ssize_t got = ::pread(opened_.file.get(), piece.data(), wanted, static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail("{}: cannot read: {}", shown_, std::strerror(errno));
    }
    if (got == 0) {
      fail("{}: ends at byte {}, where {} bytes are expected", shown_, from, to);
    }
    take(std::span(piece).first(static_cast<std::size_t>(got)));
    from += static_cast<std::uint64_t>(got);
  }
}

StoredFile::Content StoredFile::look_at(std::uint64_t from, std::uint64_t to, StopFlag stop) const {
  Content content;
  read(from, to, stop, [&](std::span<const std::byte> piece) {
    content.sum.add(piece);
    content.lines +=
        static_cast<std::uint64_t>(std::ranges::count(piece, static_cast<std::byte>('\n')));
    content.whole = piece.back() == static_cast<std::byte>('\n');
  });
  return content;
}

std::vector<std::uint64_t> StoredFile::sums(std::uint64_t from,
                                            const std::vector<std::uint64_t>& ends,
                                            StopFlag stop) const {
  std::vector<std::uint64_t> found;
  Sha256 sum;
  for (const std::uint64_t end : ends) {
    if (end > size_ || end < from) {
      break;
    }
    read(from, end, stop, [&](std::span<const std::byte> piece) { sum.add(piece); });
    from = end;
    found.push_back(sum.head());
  }
  return found;
}

void StoredFile::each_line(
    std::uint64_t to, StopFlag stop,
    const std::function<void(std::string_view line, std::uint64_t number)>& take) const {
  constexpr std::size_t kMaxLine = std::size_t{64} << 20;
  std::string begun;  // of a line that goes on in the next piece
  std::uint64_t number = 1;
  read(0, to, stop, [&](std::span<const std::byte> piece) {
    std::string_view rest(reinterpret_cast<const char*>(piece.data()), piece.size());
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      begun += rest.substr(0, end);
      take(begun, number++);
      begun.clear();
      rest.remove_prefix(end + 1);
    }
    begun += rest;
    if (begun.size() > kMaxLine) {
      fail("{}: line {} is longer than {} bytes", shown_, number, kMaxLine);
    }
  });
  if (!begun.empty()) {
    take(begun, number);
  }
}

std::string StoredFile::text(std::uint64_t most) const {
  if (size_ > most) {
    fail("{}: holds {} bytes, where at most {} are expected", shown_, size_, most);
  }
  std::string text;
  read(0, size_, {}, [&](std::span<const std::byte> piece) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return text;
}

}  // namespace fovea::pipeline
