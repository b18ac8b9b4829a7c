// CUDA's runtime in the emulator: memory.
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {
namespace {

enum CopyKind : int { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kAnywhere };

void check_kind(int kind) {
  if (kind < kHostToHost || kind > kAnywhere) {
    throw CallError{kInvalidCopyDirection, fmt::format("there is no direction {}", kind)};
  }
}

// Refuses a direction that the addresses do not have.
void check_direction(Gpu& gpu, const void* to, const void* from, int kind) {
  check_kind(kind);
  const Memory* const target = gpu.find(number_of(to));
  const Memory* const source = gpu.find(number_of(from));
  const bool writes_device = kind == kHostToDevice || kind == kDeviceToDevice;
  const bool reads_device = kind == kDeviceToHost || kind == kDeviceToDevice;
  const bool is_only_on_device = target != nullptr && !target->is_on_host();
  const bool comes_from_device = source != nullptr && !source->is_on_host();
  if (kind != kAnywhere &&
      ((writes_device && target == nullptr) || (!writes_device && is_only_on_device) ||
       (reads_device && source == nullptr) || (!reads_device && comes_from_device))) {
    constexpr std::array kNames = {"HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice"};
    throw CallError{
        kInvalidValue,
        fmt::format("cudaMemcpy{} is asked for, but the addresses to write and read are "
                    "of the {} and the {}",
                    kNames.at(static_cast<std::size_t>(kind)),
                    target == nullptr ? "host" : "device", source == nullptr ? "host" : "device")};
  }
}

int copy(const char* function, void* to, const void* from, std::size_t bytes, int kind) {
  return runtime_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    if (bytes != 0) {
      check_direction(gpu, to, from, kind);
    }
    gpu.copy(number_of(to), number_of(from), bytes);
  });
}

int copy_2d(const char* function, void* to, std::size_t to_pitch, const void* from,
            std::size_t from_pitch, std::size_t width, std::size_t height, int kind) {
  return runtime_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    if (width != 0 && height != 0) {
      check_direction(gpu, to, from, kind);
    }
    copy_rows(gpu, {number_of(to), to_pitch}, {number_of(from), from_pitch}, width, height);
  });
}

int copy_3d(const char* function, const Copy3D* copy) {
  return runtime_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    if (copy == nullptr || copy->source_array != nullptr || copy->target_array != nullptr) {
      throw CallError{kNotSupported, "copies of arrays are not supported"};
    }
    const auto begin = [](const PitchedPointer& memory, const Position& position, std::size_t z) {
      return Rows{number_of(memory.address) +
                      ((position.z + z) * memory.rows + position.y) * memory.pitch + position.x,
                  memory.pitch};
    };
    for (std::size_t z = 0; z < copy->extent.depth; ++z) {
      copy_rows(gpu, begin(copy->target, copy->target_position, z),
                begin(copy->source, copy->source_position, z), copy->extent.width,
                copy->extent.height);
    }
  });
}

int fill(const char* function, void* to, std::size_t pitch, int value, std::size_t width,
         std::size_t rows) {
  return runtime_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    const auto byte = static_cast<std::byte>(value);
    for (std::size_t row = 0; row < rows; ++row) {
      gpu.fill(number_of(to) + row * pitch, {&byte, 1}, width);
    }
  });
}

int allocate(const char* function, void** to, std::size_t bytes) {
  return runtime_call(function, [&](Gpu& gpu) {
    store(to, bytes == 0 ? nullptr : pointer_to(gpu.allocate(bytes)));
  });
}

int allocate_host(const char* function, void** to, std::size_t bytes, MemoryKind kind) {
  return runtime_call(function, [&](Gpu& gpu) { store(to, gpu.allocate_on_host(bytes, kind)); });
}

int release(const char* function, void* address) {
  return runtime_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    gpu.free(number_of(address));
  });
}

int copy_symbol(const char* function, const void* symbol, const void* other, std::size_t bytes,
                std::size_t offset, bool is_written) {
  return runtime_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    const std::uint64_t address = gpu.variable(symbol).address + offset;
    gpu.copy(is_written ? address : number_of(other), is_written ? number_of(other) : address,
             bytes);
  });
}

}  // namespace

FOVEA_ENTRY cudaMalloc(void** to, std::size_t bytes) {
  return allocate(__func__, to, bytes);
}
FOVEA_ENTRY cudaMallocAsync(void** to, std::size_t bytes, void* /*stream*/) {
  return allocate(__func__, to, bytes);
}
FOVEA_ENTRY cudaMallocFromPoolAsync(void** to, std::size_t bytes, void* /*pool*/,
                                    void* /*stream*/) {
  return allocate(__func__, to, bytes);
}
FOVEA_ENTRY cudaMallocPitch(void** to, std::size_t* pitch, std::size_t width, std::size_t rows) {
  if (pitch != nullptr) {
    *pitch = pitch_of(width);
  }
  return allocate(__func__, to, bytes_of_rows(pitch_of(width), rows));
}
FOVEA_ENTRY cudaMalloc3D(PitchedPointer* to, Extent extent) {
  const std::size_t pitch = pitch_of(extent.width);
  *to = {.address = nullptr, .pitch = pitch, .x_bytes = extent.width, .rows = extent.height};
  return allocate(__func__, &to->address,
                  bytes_of_rows(bytes_of_rows(pitch, extent.height), extent.depth));
}
FOVEA_ENTRY cudaMallocHost(void** to, std::size_t bytes) {
  return allocate_host(__func__, to, bytes, MemoryKind::kPinned);
}
FOVEA_ENTRY cudaHostAlloc(void** to, std::size_t bytes, unsigned /*flags*/) {
  return allocate_host(__func__, to, bytes, MemoryKind::kPinned);
}
FOVEA_ENTRY cudaMallocManaged(void** to, std::size_t bytes, unsigned /*flags*/) {
  return allocate_host(__func__, to, bytes, MemoryKind::kManaged);
}
FOVEA_ENTRY cudaFree(void* address) {
  return release(__func__, address);
}
FOVEA_ENTRY cudaFreeHost(void* address) {
  return release(__func__, address);
}
FOVEA_ENTRY cudaFreeAsync(void* address, void* /*stream*/) {
  return release(__func__, address);
}
FOVEA_ENTRY cudaHostRegister(void* address, std::size_t bytes, unsigned /*flags*/) {
  return runtime_call(__func__, [&](Gpu& gpu) { gpu.register_host(address, bytes); });
}
FOVEA_ENTRY cudaHostUnregister(void* address) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    gpu.synchronize();
    gpu.unregister_host(address);
  });
}
FOVEA_ENTRY cudaHostGetDevicePointer(void** to, void* address, unsigned /*flags*/) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    if (const Memory* const memory = gpu.find(number_of(address));
        memory == nullptr || !memory->is_on_host()) {
      throw CallError{kInvalidValue, "the address is not of page-locked memory"};
    }
    store(to, address);
  });
}
FOVEA_ENTRY cudaHostGetFlags(unsigned* flags, void* /*address*/) {
  return runtime_call(__func__, [&](Gpu&) { store(flags, 0); });
}

FOVEA_ENTRY cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  return copy(__func__, to, from, bytes, kind);
}
FOVEA_ENTRY cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind,
                            void* /*stream*/) {
  return copy(__func__, to, from, bytes, kind);
}
FOVEA_ENTRY cudaMemcpyPeer(void* to, int /*to_device*/, const void* from, int /*from_device*/,
                           std::size_t bytes) {
  return copy(__func__, to, from, bytes, kAnywhere);
}
FOVEA_ENTRY cudaMemcpyPeerAsync(void* to, int /*to_device*/, const void* from, int /*from_device*/,
                                std::size_t bytes, void* /*stream*/) {
  return copy(__func__, to, from, bytes, kAnywhere);
}
FOVEA_ENTRY cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, int kind) {
  return copy_2d(__func__, to, to_pitch, from, from_pitch, width, height, kind);
}
FOVEA_ENTRY cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              int kind, void* /*stream*/) {
  return copy_2d(__func__, to, to_pitch, from, from_pitch, width, height, kind);
}
FOVEA_ENTRY cudaMemcpy3D(const Copy3D* copy) {
  return copy_3d(__func__, copy);
}
FOVEA_ENTRY cudaMemcpy3DAsync(const Copy3D* copy, void* /*stream*/) {
  return copy_3d(__func__, copy);
}
FOVEA_ENTRY cudaMemset(void* to, int value, std::size_t bytes) {
  return fill(__func__, to, 0, value, bytes, 1);
}
FOVEA_ENTRY cudaMemsetAsync(void* to, int value, std::size_t bytes, void* /*stream*/) {
  return fill(__func__, to, 0, value, bytes, 1);
}
FOVEA_ENTRY cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width,
                         std::size_t height) {
  return fill(__func__, to, pitch, value, width, height);
}
FOVEA_ENTRY cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, void* /*stream*/) {
  return fill(__func__, to, pitch, value, width, height);
}
FOVEA_ENTRY cudaMemset3D(PitchedPointer to, int value, Extent extent) {
  int code = kSuccess;
  for (std::size_t z = 0; z < extent.depth && code == kSuccess; ++z) {
    code = fill(__func__, static_cast<char*>(to.address) + z * to.rows * to.pitch, to.pitch, value,
                extent.width, extent.height);
  }
  return code;
}

FOVEA_ENTRY cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                               std::size_t offset, int /*kind*/) {
  return copy_symbol(__func__, symbol, from, bytes, offset, true);
}
FOVEA_ENTRY cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                    std::size_t offset, int /*kind*/, void* /*stream*/) {
  return copy_symbol(__func__, symbol, from, bytes, offset, true);
}
FOVEA_ENTRY cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes,
                                 std::size_t offset, int /*kind*/) {
  return copy_symbol(__func__, symbol, to, bytes, offset, false);
}
FOVEA_ENTRY cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes,
                                      std::size_t offset, int /*kind*/, void* /*stream*/) {
  return copy_symbol(__func__, symbol, to, bytes, offset, false);
}
FOVEA_ENTRY cudaGetSymbolAddress(void** to, const void* symbol) {
  return runtime_call(__func__,
                      [&](Gpu& gpu) { store(to, pointer_to(gpu.variable(symbol).address)); });
}
FOVEA_ENTRY cudaGetSymbolSize(std::size_t* to, const void* symbol) {
  return runtime_call(__func__, [&](Gpu& gpu) { store(to, gpu.variable(symbol).bytes); });
}

FOVEA_ENTRY cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return runtime_call(__func__, [&](Gpu& gpu) { store_memory_info(gpu, free, total); });
}
FOVEA_ENTRY cudaPointerGetAttributes(PointerAttributes* to, const void* address) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    const Memory* const memory = gpu.find(number_of(address));
    const bool is_on_host = memory == nullptr || memory->is_on_host();
    int type = 0;  // not registered
    if (memory != nullptr) {
      type = memory->kind == MemoryKind::kManaged ? 3 : is_on_host ? 1 : 2;
    }
    void* const pointer = pointer_to(number_of(address));
    store(to, PointerAttributes{.type = type,
                                .device = memory == nullptr ? -1 : 0,
                                .device_pointer = memory == nullptr ? nullptr : pointer,
                                .host_pointer = is_on_host ? pointer : nullptr});
  });
}

// Hints, which change nothing: their parameters are not read.
FOVEA_ENTRY cudaMemAdvise() {
  return kSuccess;
}
FOVEA_ENTRY cudaMemPrefetchAsync() {
  return kSuccess;
}
FOVEA_ENTRY cudaStreamAttachMemAsync() {
  return kSuccess;
}
FOVEA_ENTRY cudaMemPoolSetAttribute() {
  return kSuccess;
}
FOVEA_ENTRY cudaMemPoolTrimTo() {
  return kSuccess;
}
FOVEA_ENTRY cudaDeviceGetDefaultMemPool(void** pool, int /*device*/) {
  static char the_pool = 0;
  return runtime_call(__func__, [&](Gpu&) { store(pool, &the_pool); });
}

FOVEA_ALIAS(cudaMemAdvise, cudaMemAdvise_v2)
FOVEA_ALIAS(cudaMemPrefetchAsync, cudaMemPrefetchAsync_v2)
FOVEA_ALIAS(cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz)
FOVEA_ALIAS(cudaDeviceGetDefaultMemPool, cudaDeviceGetMemPool)
FOVEA_ALIAS(cudaMallocAsync, cudaMallocAsync_ptsz)
FOVEA_ALIAS(cudaFreeAsync, cudaFreeAsync_ptsz)
FOVEA_ALIAS(cudaMemcpy, cudaMemcpy_ptds)
FOVEA_ALIAS(cudaMemcpyAsync, cudaMemcpyAsync_ptsz)
FOVEA_ALIAS(cudaMemcpy2D, cudaMemcpy2D_ptds)
FOVEA_ALIAS(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz)
FOVEA_ALIAS(cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds)
FOVEA_ALIAS(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds)
FOVEA_ALIAS(cudaMemset, cudaMemset_ptds)
FOVEA_ALIAS(cudaMemsetAsync, cudaMemsetAsync_ptsz)

}  // namespace fovea::programs
