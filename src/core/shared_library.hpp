// SharedLibrary: a library that is opened at run time, so that the program also runs without it.
#pragma once

#include <span>
#include <string>

namespace fovea {

/// Stays open until the program ends, because libraries keep threads and state of their own.
class SharedLibrary {
 public:
  /// Opens the file that the environment variable `variable` names, and no other when it is set and
  /// not empty; else the first of `names` that the loader finds.
  static SharedLibrary open(const char* variable, std::span<const char* const> names);

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  /// Why it is not open: the loader's words.
  [[nodiscard]] const std::string& reason() const { return reason_; }

  /// Throws fovea::Error when the library lacks the function.
  template <typename Function>
  void bind(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }
  /// Leaves null what the library lacks.
  template <typename Function>
  void bind_if_there(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol_if_there(name));
  }

 private:
  [[nodiscard]] void* symbol(const char* name) const;
  [[nodiscard]] void* symbol_if_there(const char* name) const;

  void* handle_ = nullptr;
  std::string name_;
  std::string reason_;
};

}  // namespace fovea
