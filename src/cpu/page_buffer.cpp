// PageBuffer: anonymous mappings, large ones with a request for huge pages.
#include "cpu/page_buffer.hpp"

#include <bit>

#include <sys/mman.h>

#include "core/error.hpp"

namespace fovea::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t rounded_up(std::size_t value) {
  return (value + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

PageBuffer::PageBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) {
    return;
  }
  // Rounding smaller sizes up to huge pages would waste most of the memory.
  const bool huge = bytes >= kHugePage / 2;
  mapped_ = huge ? rounded_up(bytes) + kHugePage : bytes;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    fail("cannot allocate {} bytes for weights or activations", bytes);
  }
  data_ = static_cast<std::byte*>(mapping_);
  if (huge) {
    data_ += rounded_up(std::bit_cast<std::size_t>(data_)) - std::bit_cast<std::size_t>(data_);
    madvise(data_, rounded_up(bytes),
            MADV_HUGEPAGE);  // only a hint: kernels without huge pages refuse it
  }
}

PageBuffer::~PageBuffer() {
  if (mapping_ != nullptr) {
    munmap(mapping_, mapped_);
  }
}

std::byte* ensure_size(PageBuffer& buffer, std::size_t bytes) {
  if (buffer.bytes() < bytes) {
    buffer = PageBuffer();  // frees the old memory before allocating the new
    buffer = PageBuffer(bytes);
  }
  return buffer.data();
}

}  // namespace fovea::cpu
