// Reads encoded images with open(2) and read(2).
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
    fail("the size of {} bytes exceeds the limit of {} for an image", bytes, kMaxEncodedBytes);
  }
  if (limits.encoded == nullptr) {
    return {};
  }
  if (bytes > limits.encoded->size()) {
    fail(
        "the size is {} bytes; files of up to {} fit into the memory for decoding, which {} raises",
        bytes, limits.encoded->size(), option_words("decode-memory"));
  }
  return limits.encoded->take(bytes, limits.stop);
}

MemoryPool::Lease read_file(const std::string& path, std::vector<std::byte>& bytes,
                            const Limits& limits, std::optional<io::FileStamp>* stamp) {
  const io::OpenedFile opened = io::open_regular_file(path);
  if (stamp != nullptr) {
    *stamp = io::file_stamp(opened.info);
  }
  const auto size = static_cast<std::size_t>(opened.info.st_size);
  MemoryPool::Lease lease = take_encoded(size, limits);
  // The additional byte lets read(2) detect the end of the file without growing the buffer.
  bytes.resize(size + 1);
  // Files that the kernel generates while they are read, such as those in /proc, have size 0.
  constexpr std::size_t kMinSizeLimit = std::size_t{1} << 20;
  constexpr std::size_t kChunk = std::size_t{4} << 20;
  const std::size_t limit = std::max(size, kMinSizeLimit);
  std::size_t bytes_read = 0;
  for (;;) {
    limits.stop.poll();
    const ssize_t result = ::read(opened.file.get(), bytes.data() + bytes_read,
                                  std::min(bytes.size() - bytes_read, kChunk));
    if (result < 0) {
      if (errno == EINTR) {
        continue;
      }
      io::fail_with_errno("read");
    }
    bytes_read += static_cast<std::size_t>(result);
    if (result == 0) {
      break;
    }
    if (bytes_read > limit) {
      fail("the file has grown since it was opened with {} bytes", size);
    }
    if (bytes_read == bytes.size()) {
      bytes.resize(bytes_read + std::max<std::size_t>(bytes_read / 2, 4096));
    }
  }
  bytes.resize(bytes_read);
  if (bytes_read == 0) {
    fail("the file is empty");
  }
  return lease;
}

}  // namespace fovea::pipeline
