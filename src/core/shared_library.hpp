// SharedLibrary: a library that is opened at run time, so that the program also runs without it.
#pragma once

#include <span>
#include <string>

namespace fovea {

/// The address of a library's function; converts to a function pointer of any type.
class LibraryFunction {
 public:
  explicit LibraryFunction(void* address) : address_(address) {}
  template <typename Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address_);
  }

 private:
  void* address_;
};

/// Stays open until the program ends, because libraries may have threads and global state.
class SharedLibrary {
 public:
  /// If the environment variable `variable` is set and not empty, opens the file that it names;
  /// otherwise the first of `names` that the loader finds.
  static SharedLibrary open(const char* variable, std::span<const char* const> names);

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  /// The loader's message when the library could not be opened.
  [[nodiscard]] const std::string& reason() const { return reason_; }

  /// Returns the function. Throws fovea::Error when the library lacks it.
  [[nodiscard]] LibraryFunction function(const char* name) const;
  /// Returns a null address when the library lacks the function.
  [[nodiscard]] LibraryFunction find_function(const char* name) const;

 private:
  void* handle_ = nullptr;
  std::string name_;
  std::string reason_;
};

}  // namespace fovea
