// Our declarations of the CUDA driver API against NVIDIA's, where its header is at hand.
#include "gpu/device/driver_api.hpp"

#include <algorithm>
#include <cstddef>

#include <gtest/gtest.h>

#include "gpu/device/device.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace fovea::gpu {
namespace {

static_assert(sizeof(driver::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(driver::LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(driver::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(driver::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(driver::LaunchConfig, attribute_count) ==
              offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(alignof(TensorMap) >= 64);  // what TMA asks for; CUtensorMap has 128

TEST(DriverApi, ConstantsAreThoseOfCudaH) {
  EXPECT_EQ(driver::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver::kNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(driver::kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(driver::kJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
  EXPECT_EQ(driver::kNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(driver::kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  EXPECT_EQ(driver::kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  EXPECT_EQ(driver::kCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(driver::kLaunchAttributeClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(driver::kLaunchAttributeProgrammaticStreamSerialization,
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(static_cast<int>(driver::DeviceAttribute::kL2CacheSize),
            CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_EQ(static_cast<int>(driver::DeviceAttribute::kMultiprocessorCount),
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(static_cast<int>(driver::DeviceAttribute::kClockRate), CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  EXPECT_EQ(static_cast<int>(driver::DeviceAttribute::kComputeCapabilityMajor),
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(static_cast<int>(driver::DeviceAttribute::kComputeCapabilityMinor),
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(static_cast<int>(driver::DeviceAttribute::kMaxSharedMemoryPerBlockOptin),
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(static_cast<int>(driver::FunctionAttribute::kSharedBytes),
            CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  EXPECT_EQ(static_cast<int>(driver::FunctionAttribute::kMaxDynamicSharedBytes),
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
}

TEST(DriverApi, TensorMapEnumsAreThoseOfCudaH) {
  EXPECT_EQ(0, CU_TENSOR_MAP_DATA_TYPE_UINT8);
  EXPECT_EQ(6, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  EXPECT_EQ(7, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  EXPECT_EQ(9, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  EXPECT_EQ(static_cast<int>(Swizzle::k128), CU_TENSOR_MAP_SWIZZLE_128B);
  EXPECT_EQ(static_cast<int>(Swizzle::k32), CU_TENSOR_MAP_SWIZZLE_32B);
  EXPECT_EQ(3, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  EXPECT_EQ(0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace
}  // namespace fovea::gpu
#endif

namespace fovea::gpu {
namespace {

TEST(CudaDevice, SaysWhatIsMissing) {
  try {
    const auto device = open_cuda_device();
    EXPECT_GT(device->info().sm_count, 0);
    EXPECT_EQ(std::ranges::count(device->info().pci_bus_id, ':'), 2) << device->info().pci_bus_id;
    EXPECT_GE(count_cuda_devices(), 1);
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("NVIDIA driver"), std::string::npos) << message;
    EXPECT_NE(message.find("--device cpu"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace fovea::gpu
