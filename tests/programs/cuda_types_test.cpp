// Our declarations of CUDA's interfaces against NVIDIA's, where their headers are at hand.
#include <cstddef>

#include <gtest/gtest.h>

#include "lab/programs/error_codes.hpp"
#include "lab/programs/stand_in/calls.hpp"

#if __has_include(<cuda.h>) && __has_include(<cuda_runtime_api.h>)
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace fovea::programs {
namespace {

static_assert(sizeof(Dim3) == sizeof(dim3));
static_assert(sizeof(PitchedPointer) == sizeof(cudaPitchedPtr));
static_assert(offsetof(PitchedPointer, rows) == offsetof(cudaPitchedPtr, ysize));
static_assert(sizeof(Extent) == sizeof(cudaExtent) && sizeof(Position) == sizeof(cudaPos));
static_assert(sizeof(Copy3D) == sizeof(cudaMemcpy3DParms));
static_assert(offsetof(Copy3D, target) == offsetof(cudaMemcpy3DParms, dstPtr));
static_assert(offsetof(Copy3D, kind) == offsetof(cudaMemcpy3DParms, kind));
static_assert(sizeof(Copy2D) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(Copy2D, target) == offsetof(CUDA_MEMCPY2D, dstXInBytes));
static_assert(offsetof(Copy2D, width_bytes) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(offsetof(PointerAttributes, host_pointer) ==
              offsetof(cudaPointerAttributes, hostPointer));
static_assert(offsetof(FunctionAttributes, max_dynamic_shared_bytes) ==
              offsetof(cudaFuncAttributes, maxDynamicSharedSizeBytes));
static_assert(offsetof(FunctionAttributes, cluster_depth) ==
              offsetof(cudaFuncAttributes, requiredClusterDepth));

TEST(CudaTypes, CodesAreThoseOfTheHeaders) {
  EXPECT_EQ(int{kOutOfMemory}, cudaErrorMemoryAllocation);
  EXPECT_EQ(int{kInvalidSymbol}, cudaErrorInvalidSymbol);
  EXPECT_EQ(int{kInvalidCopyDirection}, cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(int{kMissingConfiguration}, cudaErrorMissingConfiguration);
  EXPECT_EQ(int{kInvalidFunction}, cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(int{kNoKernelImage}, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(int{kInvalidImage}, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(int{kInvalidPtx}, CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(int{kIllegalAddress}, cudaErrorIllegalAddress);
  EXPECT_EQ(int{kTooLargeCooperativeLaunch}, cudaErrorCooperativeLaunchTooLarge);
  EXPECT_EQ(int{kNotSupported}, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_STREQ(describe_error(CUDA_ERROR_LAUNCH_FAILED).driver_name, "CUDA_ERROR_LAUNCH_FAILED");
  EXPECT_EQ(int{kMaxDynamicSharedBytesAttribute}, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
}

}  // namespace
}  // namespace fovea::programs
#endif
