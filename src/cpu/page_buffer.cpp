// PageBuffer: anonymous mappings, large ones with a request for huge pages.
#include "cpu/page_buffer.hpp"

#include <sys/mman.h>

#include "core/error.hpp"

namespace fovea::cpu {
namespace {

// A mapping gets no huge page at its ragged ends; below this size that wastes more than it gains.
constexpr std::size_t kHugeWorthwhile = std::size_t{4} << 20;

}  // namespace

PageBuffer::PageBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) {
    return;
  }
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail("no memory: {} bytes for weights could not be had", bytes);
  }
  if (bytes >= kHugeWorthwhile) {
    madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: kernels without huge pages refuse it
  }
  data_ = static_cast<std::byte*>(memory);
}

PageBuffer::~PageBuffer() {
  if (data_ != nullptr) {
    munmap(data_, bytes_);
  }
}

}  // namespace fovea::cpu
