// AlignedBuffer: owned, uninitialised memory aligned for SIMD and whole cache lines.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace fovea {

inline constexpr std::size_t kBufferAlignment = 64;  // one cache line, one AVX-512 register

/// Owns `size()` elements of trivial type T, aligned to kBufferAlignment, not initialised.
template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size)
      : data_(
            static_cast<T*>(::operator new(size * sizeof(T), std::align_val_t{kBufferAlignment}))),
        size_(size) {}

  [[nodiscard]] T* data() { return data_.get(); }
  [[nodiscard]] const T* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::span<T> span() { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const T> span() const { return {data_.get(), size_}; }
  T& operator[](std::size_t index) { return data_.get()[index]; }
  const T& operator[](std::size_t index) const { return data_.get()[index]; }

  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

 private:
  struct Free {
    void operator()(T* pointer) const {
      ::operator delete(pointer, std::align_val_t{kBufferAlignment});
    }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

/// Makes `buffer` hold at least `count` elements; previous contents are lost.
template <typename T>
T* ensure_size(AlignedBuffer<T>& buffer, std::integral auto count) {
  if (buffer.size() < static_cast<std::size_t>(count)) {
    buffer = AlignedBuffer<T>(static_cast<std::size_t>(count));
  }
  return buffer.data();
}

}  // namespace fovea
