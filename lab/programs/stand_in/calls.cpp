// Behaviour that functions of the runtime and of the driver share.
#include "lab/programs/stand_in/calls.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

namespace fovea::programs {

int report_exception(const char* function) {
  Journal& journal = Gpu::instance().journal();
  const auto message = [&](const std::string& text) {
    return fmt::format("{}: {}", function, text);
  };
  try {
    throw;
  } catch (const CallError& error) {
    const bool is_refusal = error.code == kNotSupported || error.code == kNoKernelImage ||
                            error.code == kInvalidPtx || error.code == kInvalidImage;
    if (!error.message.empty() && is_refusal) {
      journal.add_refusal(message(error.message));
    } else if (!error.message.empty()) {
      journal.add_note(message(error.message));
    }
    return error.code;
  } catch (const std::bad_alloc&) {
    journal.add_refusal(message("the machine has not enough memory"));
    return kOutOfMemory;
  } catch (const std::exception& error) {
    journal.add_refusal(message(error.what()));
    return kNotSupported;
  }
}

int& last_error() {
  thread_local int error = kSuccess;
  return error;
}

void copy_rows(Gpu& gpu, Rows to, Rows from, std::size_t row_bytes, std::size_t rows) {
  if (rows > 1 && (row_bytes > to.pitch || row_bytes > from.pitch)) {
    throw CallError{kInvalidValue, fmt::format("a row has {} bytes, but the pitches are {} and {}",
                                               row_bytes, to.pitch, from.pitch)};
  }
  for (std::size_t row = 0; row < rows; ++row) {
    gpu.copy(to.address + row * to.pitch, from.address + row * from.pitch, row_bytes);
  }
}

std::size_t pitch_of(std::size_t row_bytes) {
  constexpr std::size_t kPitchBytes = 512;
  const std::size_t missing = (kPitchBytes - row_bytes % kPitchBytes) % kPitchBytes;
  return row_bytes > SIZE_MAX - missing ? SIZE_MAX : row_bytes + missing;
}

std::size_t bytes_of_rows(std::size_t pitch, std::size_t rows) {
  return pitch != 0 && rows > SIZE_MAX / pitch ? SIZE_MAX : pitch * rows;
}

void store_text(char* to, int bytes, const char* text) {
  if (to == nullptr || bytes <= 0) {
    throw CallError{kInvalidValue, "there is no room for the result"};
  }
  const std::size_t size = std::min(std::strlen(text), static_cast<std::size_t>(bytes) - 1);
  std::memcpy(to, text, size);
  to[size] = '\0';
}

void store_memory_info(const Gpu& gpu, std::size_t* free, std::size_t* total) {
  const std::size_t all = gpu.settings().max_memory;
  store(free, all - std::min(all, gpu.used_bytes()));
  store(total, all);
}

FunctionAttributes function_attributes(Gpu& gpu, Function& function) {
  const emu::KernelInfo info = gpu.info(function);
  constexpr int kUnknownRegisters = 32;  // ptxas decides; the emulator has as many as there are
  const auto shared = static_cast<int>(info.static_shared_bytes);
  return {.shared_bytes = info.static_shared_bytes,
          .constant_bytes = 0,
          .local_bytes = info.local_bytes,
          .max_threads =
              info.max_threads != 0 ? static_cast<int>(info.max_threads) : GpuLimits::kMaxThreads,
          .registers =
              info.max_registers != 0 ? static_cast<int>(info.max_registers) : kUnknownRegisters,
          .ptx_version = gpu.settings().arch,
          .binary_version = gpu.settings().arch,
          .cache_mode = 0,
          .max_dynamic_shared_bytes = function.max_dynamic_shared_bytes >= 0
                                          ? function.max_dynamic_shared_bytes
                                          : GpuLimits::kSharedBytes - shared,
          .shared_carveout = -1,
          .must_have_cluster = info.cluster[0] != 0 ? 1 : 0,
          .cluster_width = static_cast<int>(info.cluster[0]),
          .cluster_height = static_cast<int>(info.cluster[1]),
          .cluster_depth = static_cast<int>(info.cluster[2])};
}

void set_function_attribute(Gpu& gpu, Function& function, int attribute, int value) {
  if (attribute != kMaxDynamicSharedBytesAttribute) {
    return;  // carveouts and cluster sizes change nothing here
  }
  const auto shared = static_cast<int>(gpu.info(function).static_shared_bytes);
  if (value < 0 || value > GpuLimits::kMaxSharedBytes - shared) {
    throw CallError{kInvalidValue,
                    fmt::format("{} bytes of dynamic shared memory are asked for; at most {} are "
                                "left beside {} bytes of static shared memory",
                                value, GpuLimits::kMaxSharedBytes - shared, shared)};
  }
  function.max_dynamic_shared_bytes = value;
}

void* find_entry_point(const char* name) {
  static void* const library = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&find_entry_point), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  for (const char* const version : {"_v4", "_v3", "_v2", ""}) {
    if (void* const found = dlsym(library, (std::string(name) + version).c_str())) {
      return found;
    }
  }
  return nullptr;
}

namespace {

// Runs what still waits when the program ends.
[[gnu::destructor]] void finish() {
  static_cast<void>(driver_call("the program's end", [](Gpu& gpu) { gpu.synchronize(); }));
}

}  // namespace
}  // namespace fovea::programs
