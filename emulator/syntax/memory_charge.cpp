// Estimated memory of a module, and its limit.
#include "emulator/syntax/memory_charge.hpp"

#include <fmt/format.h>

#include "fovea_emulator/error.hpp"

namespace emu::syntax {

void MemoryCharge::add(std::size_t bytes, int line) {
  if (bytes > max_bytes_ - bytes_) {
    throw TooLarge(
        fmt::format("line {}: the module up to here takes more than the allowed {} MiB of "
                    "memory",
                    line, max_bytes_ >> 20U));
  }
  bytes_ += bytes;
}

}  // namespace emu::syntax
