// The tensor that DLPack passes between libraries: its binary interface as of version 0.8
// (dmlc.github.io/dlpack), which all later readers take as well.
#pragma once

#include <cstdint>

namespace fovea::c::dlpack {

enum class DeviceType : std::int32_t { kCpu = 1, kCuda = 2 };

struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int32_t id = 0;
};

struct DataType {
  std::uint8_t code = 2;  // floating-point
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;
};

struct Tensor {
  void* data = nullptr;
  Device device;
  std::int32_t ndim = 0;
  DataType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // null: row-major without gaps
  std::uint64_t byte_offset = 0;
};

struct ManagedTensor {
  Tensor tensor;
  void* owner = nullptr;
  void (*deleter)(ManagedTensor* self) = nullptr;
};

}  // namespace fovea::c::dlpack
