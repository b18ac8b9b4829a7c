// Rounding modes of the host's floats, which models of directed rounding compute with.
#pragma once

#include <cstdint>
#include <string_view>

namespace captures {

/// Rounds by a mode of PTX (rn, rz, rm, rp) while it lives; does nothing where the processor has
/// no such modes that the compiler lets alone.
class HostRounding {
 public:
#if defined(__SSE__)
  static constexpr bool kIsThere = true;
  explicit HostRounding(std::string_view mode) : before_(__builtin_ia32_stmxcsr()) {
    constexpr unsigned kDown = 0x2000;
    constexpr unsigned kUp = 0x4000;
    __builtin_ia32_ldmxcsr(before_ | (mode == "rm"   ? kDown
                                      : mode == "rp" ? kUp
                                      : mode == "rz" ? kDown | kUp
                                                     : 0));
  }
  ~HostRounding() { __builtin_ia32_ldmxcsr(before_); }
#else
  static constexpr bool kIsThere = false;
  explicit HostRounding(std::string_view /*mode*/) {}
  ~HostRounding() = default;
#endif
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  [[maybe_unused]] unsigned before_ = 0;
};

}  // namespace captures
