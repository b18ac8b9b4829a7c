// Estimated memory of a module, and its limit.
#pragma once

#include <cstddef>

namespace emu::syntax {

/// Adds up the memory of the parts of a module before they are created.
class MemoryCharge {
 public:
  explicit MemoryCharge(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Adds a part that is read at this line of the PTX; throws TooLarge when the limit is exceeded.
  void add(std::size_t bytes, int line);
  /// Takes back what has been added since there were so many bytes.
  void return_to(std::size_t bytes) { bytes_ = bytes; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
};

}  // namespace emu::syntax
