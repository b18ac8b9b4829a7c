// Finds libfovea.so and its functions.
#include "python/native/engine.hpp"

#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace fovea::torch_operators {
namespace {

/// Folder of the library that this code is in.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) {
    throw std::runtime_error("fovea: the loader does not say where libfovea_torch.so lies");
  }
  const std::string path = info.dli_fname;
  const std::size_t end = path.rfind('/');
  return end == std::string::npos ? "." : path.substr(0, end);
}

Engine open() {
  const std::string path = own_folder() + "/libfovea.so";
  // Never closed: it has threads, and keeps GPUs open.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(std::string("fovea: ") + dlerror());
  }
  const auto find = [&]<typename Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) {
      throw std::runtime_error("fovea: " + path + " is of another version: it has no " + name);
    }
  };
  Engine engine{};
  find(engine.attention, "fovea_attention");
  find(engine.patch_embed, "fovea_patch_embed");
  find(engine.linear, "fovea_linear");
  find(engine.layer_norm, "fovea_layer_norm");
  find(engine.last_error, "fovea_last_error");
  return engine;
}

}  // namespace

const Engine& engine() {
  static const Engine opened = open();
  return opened;
}

void check(fovea_status status) {
  if (status != FOVEA_OK) {
    throw std::runtime_error(std::string("fovea: ") + engine().last_error());
  }
}

}  // namespace fovea::torch_operators
