// ScratchBuffer: working memory that a thread reuses from image to image, so that large buffers
// are not mapped and faulted in again for each image.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"

namespace fovea::image {

/// At least `size()` uninitialised bytes, borrowed from the thread's free list for the lifetime of
/// this object. Created and destroyed on one thread.
class ScratchBuffer {
 public:
  explicit ScratchBuffer(std::size_t bytes);
  ~ScratchBuffer();
  ScratchBuffer(const ScratchBuffer&) = delete;
  ScratchBuffer& operator=(const ScratchBuffer&) = delete;

  [[nodiscard]] std::uint8_t* data() { return buffer_.data(); }
  [[nodiscard]] std::size_t size() const { return buffer_.size(); }

 private:
  AlignedBuffer<std::uint8_t> buffer_;
};

}  // namespace fovea::image
