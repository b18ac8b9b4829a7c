// Opens libfovea.so and looks up its functions.
#include "python/native/operator.hpp"

#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace fovea::torch_operators {
namespace {

/// Returns the folder of the library that contains this code.
std::string library_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_folder), &info) == 0 ||
      info.dli_fname == nullptr) {
    throw std::runtime_error("fovea: the loader cannot locate libfovea_torch.so");
  }
  const std::string path = info.dli_fname;
  const std::size_t end = path.rfind('/');
  return end == std::string::npos ? "." : path.substr(0, end);
}

struct Library {
  std::string path;
  void* handle;
};

const Library& library() {
  static const Library opened = [] {
    const std::string path = library_folder() + "/libfovea.so";
    // The library is never closed, because it owns threads and GPU contexts.
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      throw std::runtime_error(std::string("fovea: ") + dlerror());
    }
    return Library{path, handle};
  }();
  return opened;
}

}  // namespace

void* find(const char* name) {
  void* const function = dlsym(library().handle, name);
  if (function == nullptr) {
    throw std::runtime_error("fovea: " + library().path + " has another version: it lacks " + name);
  }
  return function;
}

void check(fovea_status status) {
  if (status != FOVEA_OK) {
    static const auto last_error =
        reinterpret_cast<decltype(&fovea_last_error)>(find("fovea_last_error"));
    throw std::runtime_error(std::string("fovea: ") + last_error());
  }
}

}  // namespace fovea::torch_operators
