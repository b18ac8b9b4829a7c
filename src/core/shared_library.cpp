// Opens libraries through the dynamic loader.
#include "core/shared_library.hpp"

#include <cstdlib>

#include <dlfcn.h>

#include "core/error.hpp"

namespace fovea {

SharedLibrary SharedLibrary::open(const char* variable, std::span<const char* const> names) {
  const char* const override_name = std::getenv(variable);
  if (override_name != nullptr && *override_name != '\0') {
    names = std::span(&override_name, 1);
  }
  SharedLibrary library;
  for (const char* const name : names) {
    library.handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library.handle_ != nullptr) {
      library.name_ = name;
      break;
    }
    if (library.reason_.empty()) {  // report the error for the first name, the most likely one
      library.reason_ = dlerror();
    }
  }
  return library;
}

LibraryFunction SharedLibrary::find_function(const char* name) const {
  return LibraryFunction(dlsym(handle_, name));
}

LibraryFunction SharedLibrary::function(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address == nullptr) {
    fail("{} has no function {}: it is too old", name_, name);
  }
  return LibraryFunction(address);
}

}  // namespace fovea
