// read_file: implemented with open(2) and read(2).
#include "pipeline/read_file.hpp"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/descriptor.hpp"
#include "io/system_error.hpp"

namespace fovea::pipeline {

MemoryPool::Lease take_encoded(std::size_t bytes, const Limits& limits) {
  if (bytes > kMaxEncodedBytes) {
    fail("holds {} bytes, more than the limit of {} for an image", bytes, kMaxEncodedBytes);
  }
  if (limits.encoded == nullptr) {
    return {};
  }
  if (bytes > limits.encoded->size()) {
    fail("holds {} bytes; files of up to {} fit into the memory for decoding, which {} raises",
         bytes, limits.encoded->size(), option_words("decode-memory"));
  }
  return limits.encoded->take(bytes, limits.stop);
}

MemoryPool::Lease read_file(const std::string& path, std::vector<std::byte>& bytes,
                            const Limits& limits, std::optional<io::FileStamp>* stamp) {
  const io::OpenedFile opened = io::open_regular_file(path);
  if (stamp != nullptr) {
    *stamp = io::stamp_of(opened.info);
  }
  const auto size = static_cast<std::size_t>(opened.info.st_size);
  MemoryPool::Lease lease = take_encoded(size, limits);
  // One byte more than expected, so that the end of the file is detected without growing the
  // buffer.
  bytes.resize(size + 1);
  // Files that are generated while they are read, such as those in /proc, have a size of 0.
  constexpr std::size_t kUnknownSize = std::size_t{1} << 20;
  constexpr std::size_t kChunk = std::size_t{4} << 20;
  const std::size_t limit = std::max(size, kUnknownSize);
  std::size_t have = 0;
  for (;;) {
    limits.stop.poll();
    const ssize_t got =
        ::read(opened.file.get(), bytes.data() + have, std::min(bytes.size() - have, kChunk));
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      io::fail_with_errno("read");
    }
    have += static_cast<std::size_t>(got);
    if (got == 0) {
      break;
    }
    if (have > limit) {
      fail("holds more than the {} bytes that it had when it was opened", size);
    }
    if (have == bytes.size()) {
      bytes.resize(have + std::max<std::size_t>(have / 2, 4096));
    }
  }
  bytes.resize(have);
  if (have == 0) {
    fail("the file is empty");
  }
  return lease;
}

}  // namespace fovea::pipeline
