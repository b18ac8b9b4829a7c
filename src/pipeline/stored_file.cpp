// StoredFile: reads a file with io::File.
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
    fail("{}: the file is missing", io::escape((folder / name).native()));
  }
  return folder.open_to_read(name);
}

}  // namespace

StoredFile::StoredFile(const io::Folder& folder, const std::string& name)
    : StoredFile(open_stored(folder, name), folder / name) {}

StoredFile::StoredFile(io::OpenedFile opened, const std::filesystem::path& path)
    : info_(opened.info),
      file_(std::move(opened), path),
      display_path_(io::escape(path.native())) {}

void StoredFile::read(std::uint64_t begin, std::uint64_t end, StopFlag stop,
                      const std::function<void(std::span<const std::byte>)>& take) const {
  constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(begin < end ? std::min(kPieceBytes, end - begin) : 0));
  while (begin < end) {
    stop.poll();
    const auto piece = std::span(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - begin)));
    file_.read_at(begin, piece);
    take(piece);
    begin += piece.size();
  }
}

StoredFile::Content StoredFile::read_content(std::uint64_t begin, std::uint64_t end,
                                             StopFlag stop) const {
  Content content;
  read(begin, end, stop, [&](std::span<const std::byte> piece) {
    content.sum.add(piece);
    content.lines +=
        static_cast<std::uint64_t>(std::ranges::count(piece, static_cast<std::byte>('\n')));
    content.ends_line = piece.back() == static_cast<std::byte>('\n');
  });
  return content;
}

std::vector<std::uint64_t> StoredFile::sums(std::uint64_t begin,
                                            const std::vector<std::uint64_t>& ends,
                                            StopFlag stop) const {
  std::vector<std::uint64_t> results;
  io::Digest sum;
  for (const std::uint64_t end : ends) {
    if (end > size() || end < begin) {
      break;
    }
    read(begin, end, stop, [&](std::span<const std::byte> piece) { sum.add(piece); });
    begin = end;
    results.push_back(sum.head());
  }
  return results;
}

void StoredFile::each_line(
    std::uint64_t end, StopFlag stop,
    const std::function<void(std::string_view line, std::uint64_t number)>& take) const {
  constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;
  std::string line;  // the part read so far of a line that continues in the next piece
  std::uint64_t number = 1;
  read(0, end, stop, [&](std::span<const std::byte> piece) {
    std::string_view rest = as_text(piece);
    for (std::size_t size = rest.find('\n'); size != std::string_view::npos;
         size = rest.find('\n')) {
      line += rest.substr(0, size);
      take(line, number++);
      line.clear();
      rest.remove_prefix(size + 1);
    }
    line += rest;
    if (line.size() > kMaxLineBytes) {
      fail("{}: line {} is longer than {} bytes", display_path_, number, kMaxLineBytes);
    }
  });
  if (!line.empty()) {
    take(line, number);
  }
}

std::string StoredFile::text(std::uint64_t limit) const {
  if (size() > limit) {
    fail("{}: the file has {} bytes, more than the limit of {}", display_path_, size(), limit);
  }
  return text(0, size(), {});
}

std::string StoredFile::text(std::uint64_t begin, std::uint64_t end, StopFlag stop) const {
  std::string text;
  read(begin, end, stop, [&](std::span<const std::byte> piece) { text += as_text(piece); });
  return text;
}

}  // namespace fovea::pipeline
