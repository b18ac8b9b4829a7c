// Details of an operation beside its operands: a struct of the file that decodes and runs it.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <type_traits>

namespace emu {

/// Holds one struct of any such type by value, without an allocation: operations lie side by side.
class Details {
 public:
  static constexpr std::size_t kBytes = 56;

  template <typename T>
  void set(const T& details) {
    static_assert(sizeof(T) <= kBytes && alignof(T) <= alignof(std::size_t),
                  "details are small: put registers into the operation's list");
    static_assert(std::is_trivially_copyable_v<T>, "details are copied as bytes");
    new (bytes_.data()) T(details);
    type_ = &kType<T>;
  }
  template <typename T>
  [[nodiscard]] bool holds() const {
    return type_ == &kType<T>;
  }
  /// Throws std::logic_error where another type was set: the code of one instruction has been given
  /// to another.
  template <typename T>
  [[nodiscard]] const T& get() const {
    if (!holds<T>()) [[unlikely]] {
      throw std::logic_error("an operation has details of another type than its code reads");
    }
    return *std::launder(reinterpret_cast<const T*>(bytes_.data()));
  }

 private:
  template <typename T>
  static constexpr char kType = 0;  // its address stands for the type

  const void* type_ = nullptr;
  alignas(std::size_t) std::array<std::byte, kBytes> bytes_{};
};

}  // namespace emu
