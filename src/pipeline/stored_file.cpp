// StoredFile: implemented with io::File.
#include "pipeline/stored_file.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/text.hpp"

namespace fovea::pipeline {
namespace {

io::OpenedFile open_stored(const io::Folder& folder, const std::string& name) {
  if (!folder.has(name)) {
    fail("{}: is missing", io::escape((folder / name).native()));
  }
  return folder.open_to_read(name);
}

}  // namespace

StoredFile::StoredFile(const io::Folder& folder, const std::string& name)
    : StoredFile(open_stored(folder, name), folder / name) {}

StoredFile::StoredFile(io::OpenedFile opened, const std::filesystem::path& path)
    : info_(opened.info), file_(std::move(opened), path), shown_(io::escape(path.native())) {}

void StoredFile::read(std::uint64_t from, std::uint64_t to, StopFlag stop,
                      const std::function<void(std::span<const std::byte>)>& take) const {
  constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(from < to ? std::min(kPieceBytes, to - from) : 0));
  while (from < to) {
    stop.poll();
    const auto piece = std::span(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), to - from)));
    file_.read_at(from, piece);
    take(piece);
    from += piece.size();
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
  io::Digest sum;
  for (const std::uint64_t end : ends) {
    if (end > size() || end < from) {
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
  constexpr std::size_t kLongestLine = std::size_t{64} << 20;
  std::string begun;  // the first part of a line that continues in the next piece
  std::uint64_t number = 1;
  read(0, to, stop, [&](std::span<const std::byte> piece) {
    std::string_view rest = as_text(piece);
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      begun += rest.substr(0, end);
      take(begun, number++);
      begun.clear();
      rest.remove_prefix(end + 1);
    }
    begun += rest;
    if (begun.size() > kLongestLine) {
      fail("{}: line {} is longer than {} bytes", shown_, number, kLongestLine);
    }
  });
  if (!begun.empty()) {
    take(begun, number);
  }
}

std::string StoredFile::text(std::uint64_t limit) const {
  if (size() > limit) {
    fail("{}: holds {} bytes, but at most {} are expected", shown_, size(), limit);
  }
  return text(0, size(), {});
}

std::string StoredFile::text(std::uint64_t begin, std::uint64_t end, StopFlag stop) const {
  std::string text;
  read(begin, end, stop, [&](std::span<const std::byte> piece) { text += as_text(piece); });
  return text;
}

}  // namespace fovea::pipeline
