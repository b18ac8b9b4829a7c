// Finds and opens vendor libraries at run time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/shared_library.hpp"

namespace fovea::gpu {

/// The location that is searched first, when several libraries are installed.
enum class LookFirst : std::uint8_t { kSystem, kPython };

/// A shared library; stays open until the program ends, since vendors' libraries keep threads.
class Library {
 public:
  /// Tries the file that the environment variable `variable` names and no other when it is set;
  /// else each of `names` on the system (along the loader's path, then in CUDA's usual folders) and
  /// in the folders `python_packages` of Python's site-packages ("nvidia/cu13/lib"). Throws
  /// fovea::Error that says where it looked.
  static Library open(std::string_view what, const char* variable,
                      std::span<const std::string_view> names,
                      std::span<const std::string_view> python_packages,
                      LookFirst first = LookFirst::kSystem);

  /// Throws fovea::Error when the library lacks it.
  [[nodiscard]] LibraryFunction function(const char* name) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace fovea::gpu
