// Details of an operation beyond its operands, in a struct that is defined where the operation is
// decoded and run.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <type_traits>

namespace emu {

/// Holds one struct of any small type by value, without an allocation, so that operations are
/// contiguous in memory.
class Details {
 public:
  static constexpr std::size_t kBytes = 56;

  template <typename T>
  void set(const T& details) {
    static_assert(sizeof(T) <= kBytes && alignof(T) <= alignof(std::size_t),
                  "the struct is too large: put registers into the operation's list");
    static_assert(std::is_trivially_copyable_v<T>, "details are copied as bytes");
    new (bytes_.data()) T(details);
    type_ = &kType<T>;
  }
  template <typename T>
  [[nodiscard]] bool holds() const {
    return type_ == &kType<T>;
  }
  /// Returns the details. Throws std::logic_error if details of another type were set.
  template <typename T>
  [[nodiscard]] const T& get() const {
    if (!holds<T>()) [[unlikely]] {
      throw std::logic_error("the operation's details have another type than its code expects");
    }
    return *std::launder(reinterpret_cast<const T*>(bytes_.data()));
  }

 private:
  template <typename T>
  static constexpr char kType = 0;  // its address identifies the type

  const void* type_ = nullptr;
  alignas(std::size_t) std::array<std::byte, kBytes> bytes_{};
};

}  // namespace emu
