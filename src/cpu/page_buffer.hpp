// PageBuffer: zeroed memory for weights and activations, in huge pages where the kernel provides
// them.
#pragma once

#include <cstddef>
#include <utility>

namespace fovea::cpu {

/// Owns `bytes()` of zeroed memory, aligned to at least 4096. Huge pages avoid most TLB misses of
/// matrix products: every slice streams all weights, and each row of a tile may be in another page.
class PageBuffer {
 public:
  PageBuffer() = default;
  explicit PageBuffer(std::size_t bytes);
  ~PageBuffer();
  PageBuffer(PageBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        mapping_(std::exchange(other.mapping_, nullptr)),
        mapped_(std::exchange(other.mapped_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  void* mapping_ = nullptr;  // the whole mapping, in which the data is aligned to a huge page
  std::size_t mapped_ = 0;
};

/// Makes `buffer` hold at least `bytes`; previous contents are lost.
std::byte* ensure_size(PageBuffer& buffer, std::size_t bytes);

}  // namespace fovea::cpu
