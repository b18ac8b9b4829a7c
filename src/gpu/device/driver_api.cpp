// Binds the CUDA driver's library and turns its result codes into errors.
#include "gpu/device/driver_api.hpp"

#include <dlfcn.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "gpu/device/device.hpp"

namespace fovea::gpu::driver {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

Api bind() {
  // Never closed: the driver keeps threads of its own.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw NoGpu(fmt::format("no NVIDIA driver on this machine ({}); install one, or use {}",
                            dlerror(), option_words("device", "cpu")));
  }
  Api bound;
// NOLINTBEGIN(bugprone-macro-parentheses): names and parameter lists take none
#define FOVEA_DRIVER(member, name, parameters)                                                \
  bound.member = reinterpret_cast<Result(*) parameters>(dlsym(library, #name));               \
  if (bound.member == nullptr) {                                                              \
    fail("the NVIDIA driver is too old: its {} has no {}; install one for CUDA {}", kLibrary, \
         #name, kMinVersionText);                                                             \
  }
  FOVEA_DRIVER_FUNCTIONS(FOVEA_DRIVER)
#undef FOVEA_DRIVER
  // NOLINTEND(bugprone-macro-parentheses)
  return bound;
}

}  // namespace

const Api& api() {
  static const Api bound = bind();
  return bound;
}

void check(Result result, const std::string& what) {
  if (result == kSuccess) {
    return;
  }
  const char* name = nullptr;
  const char* text = nullptr;
  api().error_name(result, &name);
  api().error_string(result, &text);
  const std::string message =
      fmt::format("{}: {} ({})", what, name != nullptr ? name : "unknown CUDA error",
                  text != nullptr ? text : std::to_string(result));
  if (result == kOutOfMemory) {
    throw OutOfMemory(message);
  }
  throw Error(message);
}

}  // namespace fovea::gpu::driver
