// HostBuffer: bytes of host memory with the function that frees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "core/buffer.hpp"

namespace fovea {

/// Owns bytes, aligned to kBufferAlignment and not initialised: plain memory, or memory of another
/// kind that comes with the function that frees it.
class HostBuffer {
 public:
  using Free = std::function<void(std::uint8_t*)>;

  HostBuffer() = default;
  explicit HostBuffer(std::size_t bytes)
      : HostBuffer(
            static_cast<std::uint8_t*>(::operator new(bytes, std::align_val_t{kBufferAlignment})),
            bytes, [](std::uint8_t* data) {
              ::operator delete(data, std::align_val_t{kBufferAlignment});
            }) {}
  HostBuffer(std::uint8_t* data, std::size_t bytes, Free free)
      : data_(data, std::move(free)), bytes_(bytes) {}
  HostBuffer(HostBuffer&& other) noexcept { *this = std::move(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  [[nodiscard]] std::uint8_t* data() { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] std::span<std::uint8_t> span() { return {data_.get(), bytes_}; }
  [[nodiscard]] std::span<const std::uint8_t> span() const { return {data_.get(), bytes_}; }

 private:
  std::unique_ptr<std::uint8_t, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace fovea
