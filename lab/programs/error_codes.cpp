// Error codes of CUDA's runtime and driver, which share their numbers, and their names.
#include "lab/programs/error_codes.hpp"

#include <algorithm>
#include <array>

namespace fovea::programs {
namespace {

constexpr std::array kErrors = {
    ErrorText{0, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    ErrorText{1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    ErrorText{2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    ErrorText{3, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED",
              "initialization error"},
    ErrorText{4, "cudaErrorCudartUnloading", "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    ErrorText{9, "cudaErrorInvalidConfiguration", "CUDA_ERROR_INVALID_CONFIGURATION",
              "invalid configuration argument"},
    ErrorText{13, "cudaErrorInvalidSymbol", "CUDA_ERROR_INVALID_SYMBOL", "invalid device symbol"},
    ErrorText{21, "cudaErrorInvalidMemcpyDirection", "CUDA_ERROR_INVALID_MEMCPY_DIRECTION",
              "invalid copy direction for memcpy"},
    ErrorText{35, "cudaErrorInsufficientDriver", "CUDA_ERROR_INSUFFICIENT_DRIVER",
              "CUDA driver version is insufficient for CUDA runtime version"},
    ErrorText{52, "cudaErrorMissingConfiguration", "CUDA_ERROR_MISSING_CONFIGURATION",
              "the launch has no configuration"},
    ErrorText{98, "cudaErrorInvalidDeviceFunction", "CUDA_ERROR_INVALID_DEVICE_FUNCTION",
              "invalid device function"},
    ErrorText{100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE",
              "no CUDA-capable device is detected"},
    ErrorText{101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    ErrorText{200, "cudaErrorInvalidKernelImage", "CUDA_ERROR_INVALID_IMAGE",
              "device kernel image is invalid"},
    ErrorText{201, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT",
              "invalid device context"},
    ErrorText{209, "cudaErrorNoKernelImageForDevice", "CUDA_ERROR_NO_BINARY_FOR_GPU",
              "no kernel image is available for execution on the device"},
    ErrorText{218, "cudaErrorInvalidPtx", "CUDA_ERROR_INVALID_PTX", "the PTX cannot be run"},
    ErrorText{300, "cudaErrorInvalidSource", "CUDA_ERROR_INVALID_SOURCE",
              "device kernel image is invalid"},
    ErrorText{301, "cudaErrorFileNotFound", "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    ErrorText{400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE",
              "invalid resource handle"},
    ErrorText{500, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    ErrorText{600, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    ErrorText{700, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS",
              "an illegal memory access was encountered"},
    ErrorText{701, "cudaErrorLaunchOutOfResources", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
              "too many resources requested for launch"},
    ErrorText{702, "cudaErrorLaunchTimeout", "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch did not end"},
    ErrorText{704, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
              "peer access is already enabled"},
    ErrorText{705, "cudaErrorPeerAccessNotEnabled", "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
              "peer access has not been enabled"},
    ErrorText{710, "cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    ErrorText{712, "cudaErrorHostMemoryAlreadyRegistered",
              "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "the host memory is already registered"},
    ErrorText{713, "cudaErrorHostMemoryNotRegistered", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
              "the host memory is not registered"},
    ErrorText{715, "cudaErrorIllegalInstruction", "CUDA_ERROR_ILLEGAL_INSTRUCTION",
              "an illegal instruction was encountered"},
    ErrorText{716, "cudaErrorMisalignedAddress", "CUDA_ERROR_MISALIGNED_ADDRESS",
              "misaligned address"},
    ErrorText{719, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED",
              "unspecified launch failure"},
    ErrorText{720, "cudaErrorCooperativeLaunchTooLarge", "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
              "too many blocks in cooperative launch"},
    ErrorText{800, "cudaErrorNotPermitted", "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    ErrorText{801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    ErrorText{999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"},
};

}  // namespace

ErrorText describe_error(int code) {
  const auto* const found = std::ranges::find(kErrors, code, &ErrorText::code);
  return found == kErrors.end() ? ErrorText{.code = code} : *found;
}

}  // namespace fovea::programs
