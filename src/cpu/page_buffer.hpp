// PageBuffer: zeroed memory for weights, in huge pages where the kernel gives them.
#pragma once

#include <cstddef>
#include <utility>

namespace fovea::cpu {

/// Owns `bytes()` of zeroed memory aligned to at least 4096. Huge pages spare the matrix products
/// most of their TLB misses, for every slice streams all weights.
class PageBuffer {
 public:
  PageBuffer() = default;
  explicit PageBuffer(std::size_t bytes);
  ~PageBuffer();
  PageBuffer(PageBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace fovea::cpu
