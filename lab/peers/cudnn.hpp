// Declares the part of cuDNN's C API that is used here: functions, enumerations, and descriptors,
// which are the objects of the backend API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/nvidia/library.hpp"

namespace fovea::lab::cudnn {

using Handle = void*;

constexpr int kSuccess = 0;  // cudnnStatus_t

/// Values of cudnnBackendDescriptorType_t.
enum class DescriptorType : int {
  kPointwise = 0,
  kEngineConfig = 3,
  kHeuristics = 4,
  kExecutionPlan = 5,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
};

/// Values of cudnnBackendAttributeName_t.
enum class Attribute : int {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kPointwiseAxis = 9,
  kHeuristicsMode = 200,
  kHeuristicsOperationGraph = 201,
  kHeuristicsResults = 202,
  kPlanHandle = 400,
  kPlanEngineConfig = 401,
  kPlanWorkspaceBytes = 402,
  kPointwiseOperationDescriptor = 750,
  kPointwiseOperationX = 751,
  kPointwiseOperationB = 752,
  kPointwiseOperationY = 753,
  kPointwiseOperationT = 758,
  kOperationGraphHandle = 800,
  kOperationGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kVariantPackIds = 1000,
  kVariantPackPointers = 1001,
  kVariantPackWorkspace = 1003,
  kMatmulPrecision = 1500,
  kMatmulOperationA = 1520,
  kMatmulOperationB = 1521,
  kMatmulOperationC = 1522,
  kMatmulOperationDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionPrecision = 1601,
  kReductionOperationX = 1610,
  kReductionOperationY = 1611,
  kReductionOperationDescriptor = 1612,
};

/// Values of cudnnBackendAttributeType_t: the type of an attribute's value.
enum class AttributeType : int {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kPointer = 6,
  kHeuristicsMode = 8,
  kPointwiseMode = 14,
  kDescriptor = 15,
  kReduction = 18,
};

/// Values of cudnnDataType_t.
enum class DataType : int { kF32 = 0, kF16 = 2, kI32 = 4, kBF16 = 9, kBoolean = 11 };

/// Values of cudnnPointwiseMode_t.
enum class PointwiseMode : int {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kGreaterOrEqual = 303,
  kIndex = 501,   // index of each element along an axis
  kSelect = 601,  // x where t is true, else b
};

/// Values of cudnnReduceTensorOp_t.
enum class Reduction : int { kSum = 0, kMax = 3 };

/// Value of cudnnBackendHeurMode_t: the most accurate of the fast modes.
enum class HeuristicsMode : int { kA = 3 };

struct Api {
  gpu::Library library;
  std::size_t (*version)() = library.function("cudnnGetVersion");
  const char* (*error_string)(int status) = library.function("cudnnGetErrorString");
  void (*last_error)(char* message,
                     std::size_t bytes) = library.function("cudnnGetLastErrorString");
  int (*create)(Handle*) = library.function("cudnnCreate");
  int (*destroy)(Handle) = library.function("cudnnDestroy");
  int (*set_stream)(Handle, void* stream) = library.function("cudnnSetStream");
  int (*create_descriptor)(int type, Handle*) = library.function("cudnnBackendCreateDescriptor");
  int (*destroy_descriptor)(Handle) = library.function("cudnnBackendDestroyDescriptor");
  int (*finalize)(Handle descriptor) = library.function("cudnnBackendFinalize");
  int (*set_attribute)(Handle descriptor, int attribute, int type, std::int64_t count,
                       const void* values) = library.function("cudnnBackendSetAttribute");
  int (*get_attribute)(Handle descriptor, int attribute, int type, std::int64_t wanted,
                       std::int64_t* count,
                       void* values) = library.function("cudnnBackendGetAttribute");
  int (*execute)(Handle, Handle plan,
                 Handle variant_pack) = library.function("cudnnBackendExecute");
};

/// Opens libcudnn 9: the file in FOVEA_CUDNN, or else a library from Python's package, the loader's
/// search path or CUDA's usual folders. Opens cuBLASLt first, since cuDNN aborts the process
/// without it. Throws fovea::Error if the library is missing or too old.
[[nodiscard]] Api open_api();

/// Converts the library's version number: 91900 to "9.19.0", and 8907 to "8.9.7".
[[nodiscard]] std::string version_text(std::size_t number);
/// Returns the library's message for the last failed call; empty if there is none. If the message
/// is a trace, returns only the innermost reason, which comes first.
[[nodiscard]] std::string last_reason(const Api& api);
/// Throws fovea::Error if `status` is an error.
void check(const Api& api, int status, std::string_view what);

/// The library's type code for a C++ type.
template <typename T>
inline constexpr AttributeType kTypeOf = AttributeType::kInt64;
template <>
inline constexpr AttributeType kTypeOf<Handle> = AttributeType::kHandle;
template <>
inline constexpr AttributeType kTypeOf<DataType> = AttributeType::kDataType;
template <>
inline constexpr AttributeType kTypeOf<bool> = AttributeType::kBoolean;
template <>
inline constexpr AttributeType kTypeOf<HeuristicsMode> = AttributeType::kHeuristicsMode;
template <>
inline constexpr AttributeType kTypeOf<PointwiseMode> = AttributeType::kPointwiseMode;
template <>
inline constexpr AttributeType kTypeOf<Reduction> = AttributeType::kReduction;

/// Owns one of the library's descriptors. Descriptors refer to each other by handle, so they must
/// outlive those that are made from them.
class Descriptor {
 public:
  Descriptor(const Api& api, DescriptorType type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept
      : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(handle_, other.handle_);
    return *this;
  }

  [[nodiscard]] Handle handle() const { return handle_; }

  void set(Attribute attribute, AttributeType type, std::int64_t count, const void* values);
  template <typename T>
  void set(Attribute attribute, const T& value) {
    static_assert(kTypeOf<T> != AttributeType::kInt64 || std::is_same_v<T, std::int64_t>);
    set(attribute, kTypeOf<T>, 1, static_cast<const void*>(&value));
  }
  void set(Attribute attribute, const Descriptor& value) {
    set(attribute, AttributeType::kDescriptor, 1, static_cast<const void*>(&value.handle_));
  }
  void set_numbers(Attribute attribute, std::span<const std::int64_t> values) {
    set(attribute, AttributeType::kInt64, std::ssize(values), values.data());
  }

  /// Throws with the library's message if the attributes are invalid.
  void finalize() { check(*api_, api_->finalize(handle_), "finishing a descriptor"); }
  /// Returns whether the attributes are valid.
  [[nodiscard]] bool try_finalize() { return api_->finalize(handle_) == kSuccess; }

  [[nodiscard]] std::int64_t number(Attribute attribute) const;
  /// Returns the descriptors, all with type `type`, that an attribute holds.
  [[nodiscard]] std::vector<Descriptor> descriptors(Attribute attribute, DescriptorType type) const;

 private:
  /// Reads up to `room` values of the attribute into `values`, and returns the number of values
  /// that the attribute has.
  std::size_t get(Attribute attribute, AttributeType type, std::int64_t room, void* values) const;

  const Api* api_;
  Handle handle_ = nullptr;
};

}  // namespace fovea::lab::cudnn
