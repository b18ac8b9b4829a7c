// Error codes of CUDA's runtime and driver, which share their numbers, and their names.
#pragma once

#include <string>
#include <utility>

namespace fovea::programs {

enum ErrorCode : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialised = 3,
  kInvalidConfiguration = 9,
  kInvalidSymbol = 13,
  kInvalidCopyDirection = 21,
  kMissingConfiguration = 52,
  kInvalidFunction = 98,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoKernelImage = 209,
  kInvalidPtx = 218,
  kFileNotFound = 301,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kPeerAccessNotEnabled = 705,
  kAssert = 710,
  kHostMemoryRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kLaunchFailure = 719,
  kTooLargeCooperativeLaunch = 720,
  kNotSupported = 801,
};

/// Names and meaning of a code; `runtime_name` is null if there is no such code.
struct ErrorText {
  int code = 0;
  const char* runtime_name = nullptr;
  const char* driver_name = nullptr;
  const char* text = nullptr;
};

[[nodiscard]] ErrorText describe_error(int code);

/// Ends a call of the program with an error code. The message, unless it is empty, is told to the
/// user: the program sees the code alone.
struct CallError {
  int code = kSuccess;
  std::string message{};
};

}  // namespace fovea::programs
