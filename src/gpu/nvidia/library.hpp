// Finds and opens vendor libraries at run time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/shared_library.hpp"

namespace fovea::gpu {

/// The location that is searched first, which matters if several libraries are installed.
enum class LookFirst : std::uint8_t { kSystem, kPython };

/// A shared library. It stays open until the program ends, since NVIDIA's libraries have threads.
class Library {
 public:
  /// Opens the file that the environment variable `variable` names, if it is set. Otherwise
  /// searches for each of `names` on the system (in the loader's path, then in CUDA's usual
  /// folders) and in the folders `python_packages` of Python's site-packages ("nvidia/cu13/lib").
  /// Throws fovea::Error that lists the locations if there is none.
  static Library open(std::string_view what, const char* variable,
                      std::span<const std::string_view> names,
                      std::span<const std::string_view> python_packages,
                      LookFirst first = LookFirst::kSystem);

  /// Throws fovea::Error if the library has no such function.
  [[nodiscard]] LibraryFunction function(const char* name) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace fovea::gpu
