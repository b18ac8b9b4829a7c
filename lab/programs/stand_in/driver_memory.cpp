// CUDA's driver in the emulator: memory.
#include <cstring>

#include <fmt/format.h>

#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {
namespace {

int allocate(const char* function, std::uint64_t* to, std::size_t bytes) {
  return driver_call(function, [&](Gpu& gpu) {
    if (bytes == 0) {
      throw CallError{kInvalidValue, "an allocation has no bytes"};
    }
    store(to, gpu.allocate(bytes));
  });
}

int allocate_host(const char* function, void** to, std::size_t bytes, MemoryKind kind) {
  return driver_call(function, [&](Gpu& gpu) { store(to, gpu.allocate_on_host(bytes, kind)); });
}

int release(const char* function, std::uint64_t address) {
  return driver_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    gpu.free(address);
  });
}

// Refuses an address of the host where the function takes one of the device.
void check_device(Gpu& gpu, std::uint64_t address) {
  if (gpu.find(address) == nullptr) {
    throw CallError{kInvalidValue, fmt::format("{:#x} is no address of the device", address)};
  }
}

int copy(const char* function, std::uint64_t to, std::uint64_t from, std::size_t bytes,
         bool writes_device, bool reads_device) {
  return driver_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    if (bytes != 0 && writes_device) {
      check_device(gpu, to);
    }
    if (bytes != 0 && reads_device) {
      check_device(gpu, from);
    }
    gpu.copy(to, from, bytes);
  });
}

int copy_2d(const char* function, const Copy2D* copy) {
  return driver_call(function, [&](Gpu& gpu) {
    constexpr int kHostMemory = 1;
    constexpr int kArrayMemory = 3;
    gpu.synchronize();
    if (copy->source.memory_type == kArrayMemory || copy->target.memory_type == kArrayMemory) {
      throw CallError{kNotSupported, "copies of arrays are not supported"};
    }
    const auto rows_of = [](const Copy2D::Side& side) {
      const std::uint64_t address =
          side.memory_type == kHostMemory ? number_of(side.host) : side.device;
      return Rows{address + side.y * side.pitch + side.x_bytes, side.pitch};
    };
    copy_rows(gpu, rows_of(copy->target), rows_of(copy->source), copy->width_bytes, copy->height);
  });
}

template <typename Value>
int fill(const char* function, std::uint64_t to, std::size_t pitch, Value value, std::size_t width,
         std::size_t rows) {
  return driver_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    for (std::size_t row = 0; row < rows; ++row) {
      gpu.fill(to + row * pitch, std::as_bytes(std::span(&value, 1)), width);
    }
  });
}

void get_pointer_attribute(Gpu& gpu, void* to, int attribute, std::uint64_t address) {
  const Memory* const memory = gpu.find(address);
  if (memory == nullptr) {
    throw CallError{kInvalidValue};
  }
  const auto write = [&](const auto& value) { std::memcpy(to, &value, sizeof(value)); };
  switch (attribute) {
    case 2:  // type of memory: of the host, or of the device
      write(memory->is_on_host() && memory->kind != MemoryKind::kManaged ? 1U : 2U);
      break;
    case 3:  // address for the device
    case 4:  // address for the host
      write(address);
      break;
    case 8:  // managed
      write(memory->kind == MemoryKind::kManaged ? 1U : 0U);
      break;
    case 9:  // device
      write(0);
      break;
    case 11:  // begin of the allocation
      write(memory->address);
      break;
    case 12:  // size of the allocation
      write(memory->bytes);
      break;
    case 13:  // mapped
      write(1U);
      break;
    default:
      throw CallError{kNotSupported,
                      fmt::format("the attribute {} of pointers is not supported", attribute)};
  }
}

}  // namespace

FOVEA_ENTRY cuMemAlloc_v2(std::uint64_t* to, std::size_t bytes) {
  return allocate(__func__, to, bytes);
}
FOVEA_ENTRY cuMemAllocAsync(std::uint64_t* to, std::size_t bytes, void* /*stream*/) {
  return allocate(__func__, to, bytes);
}
FOVEA_ENTRY cuMemAllocPitch_v2(std::uint64_t* to, std::size_t* pitch, std::size_t width,
                               std::size_t rows, unsigned /*element_bytes*/) {
  *pitch = pitch_of(width);
  return allocate(__func__, to, bytes_of_rows(*pitch, rows));
}
FOVEA_ENTRY cuMemAllocManaged(std::uint64_t* to, std::size_t bytes, unsigned /*flags*/) {
  void* address = nullptr;
  const int code = allocate_host(__func__, &address, bytes, MemoryKind::kManaged);
  *to = number_of(address);
  return code;
}
FOVEA_ENTRY cuMemAllocHost_v2(void** to, std::size_t bytes) {
  return allocate_host(__func__, to, bytes, MemoryKind::kPinned);
}
FOVEA_ENTRY cuMemHostAlloc(void** to, std::size_t bytes, unsigned /*flags*/) {
  return allocate_host(__func__, to, bytes, MemoryKind::kPinned);
}
FOVEA_ENTRY cuMemFree_v2(std::uint64_t address) {
  return release(__func__, address);
}
FOVEA_ENTRY cuMemFreeAsync(std::uint64_t address, void* /*stream*/) {
  return release(__func__, address);
}
FOVEA_ENTRY cuMemFreeHost(const void* address) {
  return release(__func__, number_of(address));
}
FOVEA_ENTRY cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned /*flags*/) {
  return driver_call(__func__, [&](Gpu& gpu) { gpu.register_host(address, bytes); });
}
FOVEA_ENTRY cuMemHostUnregister(void* address) {
  return driver_call(__func__, [&](Gpu& gpu) {
    gpu.synchronize();
    gpu.unregister_host(address);
  });
}
FOVEA_ENTRY cuMemHostGetDevicePointer_v2(std::uint64_t* to, const void* address,
                                         unsigned /*flags*/) {
  return driver_call(__func__, [&](Gpu& gpu) {
    check_device(gpu, number_of(address));
    store(to, number_of(address));
  });
}
FOVEA_ENTRY cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return driver_call(__func__, [&](Gpu& gpu) { store_memory_info(gpu, free, total); });
}
FOVEA_ENTRY cuMemGetAddressRange_v2(std::uint64_t* begin, std::size_t* bytes,
                                    std::uint64_t address) {
  return driver_call(__func__, [&](Gpu& gpu) {
    check_device(gpu, address);
    const Memory& memory = *gpu.find(address);
    if (begin != nullptr) {
      *begin = memory.address;
    }
    if (bytes != nullptr) {
      *bytes = memory.bytes;
    }
  });
}
FOVEA_ENTRY cuPointerGetAttribute(void* to, int attribute, std::uint64_t address) {
  return driver_call(__func__,
                     [&](Gpu& gpu) { get_pointer_attribute(gpu, to, attribute, address); });
}
FOVEA_ENTRY cuPointerGetAttributes(unsigned count, const int* attributes, void** to,
                                   std::uint64_t address) {
  return driver_call(__func__, [&](Gpu& gpu) {
    for (unsigned i = 0; i < count; ++i) {
      get_pointer_attribute(gpu, to[i], attributes[i], address);
    }
  });
}

FOVEA_ENTRY cuMemcpy(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  return copy(__func__, to, from, bytes, false, false);
}
FOVEA_ENTRY cuMemcpyAsync(std::uint64_t to, std::uint64_t from, std::size_t bytes,
                          void* /*stream*/) {
  return copy(__func__, to, from, bytes, false, false);
}
FOVEA_ENTRY cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  return copy(__func__, to, number_of(from), bytes, true, false);
}
FOVEA_ENTRY cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes,
                                 void* /*stream*/) {
  return copy(__func__, to, number_of(from), bytes, true, false);
}
FOVEA_ENTRY cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  return copy(__func__, number_of(to), from, bytes, false, true);
}
FOVEA_ENTRY cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes,
                                 void* /*stream*/) {
  return copy(__func__, number_of(to), from, bytes, false, true);
}
FOVEA_ENTRY cuMemcpyDtoD_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  return copy(__func__, to, from, bytes, true, true);
}
FOVEA_ENTRY cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes,
                                 void* /*stream*/) {
  return copy(__func__, to, from, bytes, true, true);
}
FOVEA_ENTRY cuMemcpy2D_v2(const Copy2D* copy) {
  return copy_2d(__func__, copy);
}
FOVEA_ENTRY cuMemcpy2DUnaligned_v2(const Copy2D* copy) {
  return copy_2d(__func__, copy);
}
FOVEA_ENTRY cuMemcpy2DAsync_v2(const Copy2D* copy, void* /*stream*/) {
  return copy_2d(__func__, copy);
}

FOVEA_ENTRY cuMemsetD8_v2(std::uint64_t to, std::uint8_t value, std::size_t count) {
  return fill(__func__, to, 0, value, count, 1);
}
FOVEA_ENTRY cuMemsetD16_v2(std::uint64_t to, std::uint16_t value, std::size_t count) {
  return fill(__func__, to, 0, value, count, 1);
}
FOVEA_ENTRY cuMemsetD32_v2(std::uint64_t to, std::uint32_t value, std::size_t count) {
  return fill(__func__, to, 0, value, count, 1);
}
FOVEA_ENTRY cuMemsetD2D8_v2(std::uint64_t to, std::size_t pitch, std::uint8_t value,
                            std::size_t width, std::size_t rows) {
  return fill(__func__, to, pitch, value, width, rows);
}
FOVEA_ENTRY cuMemsetD2D32_v2(std::uint64_t to, std::size_t pitch, std::uint32_t value,
                             std::size_t width, std::size_t rows) {
  return fill(__func__, to, pitch, value, width, rows);
}
FOVEA_ENTRY cuMemsetD8Async(std::uint64_t to, std::uint8_t value, std::size_t count,
                            void* /*stream*/) {
  return fill(__func__, to, 0, value, count, 1);
}
FOVEA_ENTRY cuMemsetD16Async(std::uint64_t to, std::uint16_t value, std::size_t count,
                             void* /*stream*/) {
  return fill(__func__, to, 0, value, count, 1);
}
FOVEA_ENTRY cuMemsetD32Async(std::uint64_t to, std::uint32_t value, std::size_t count,
                             void* /*stream*/) {
  return fill(__func__, to, 0, value, count, 1);
}
// Hints, which change nothing: their parameters are not read.
FOVEA_ENTRY cuMemAdvise() {
  return kSuccess;
}
FOVEA_ENTRY cuMemPrefetchAsync() {
  return kSuccess;
}

FOVEA_ALIAS(cuMemAdvise, cuMemAdvise_v2)
FOVEA_ALIAS(cuMemPrefetchAsync, cuMemPrefetchAsync_v2)
FOVEA_ALIAS(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds)
FOVEA_ALIAS(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds)
FOVEA_ALIAS(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds)
FOVEA_ALIAS(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz)
FOVEA_ALIAS(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz)
FOVEA_ALIAS(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz)

}  // namespace fovea::programs
