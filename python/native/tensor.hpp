// Accesses torch tensors for the operators, through the stable interface.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/stable/tensor.h>

#include "fovea/c/operators.h"

namespace fovea::torch_operators {

using torch::stable::Tensor;

/// Throws an exception with the message, which torch raises as RuntimeError.
[[noreturn]] void fail(const std::string& message);

/// Fails with the message `what` unless `holds`.
void require(bool holds, const char* name, const std::string& what);

/// Throws if autograd would record an operation on any of the tensors, as operators lack gradients.
void reject_gradients(const char* name, std::initializer_list<const Tensor*> tensors);

/// Returns the fovea_type of a tensor's elements. Throws for types that Fovea does not support.
[[nodiscard]] std::int32_t element_type(const char* name, const Tensor& tensor);

/// Returns the fovea_type of a tensor of float16, bfloat16 or float32. Throws for other types.
std::int32_t float_type(const char* name, const Tensor& tensor);

/// Returns torch's number for the type of a tensor's elements.
[[nodiscard]] std::int32_t torch_type(const Tensor& tensor);

/// Returns a pointer to the tensor, or null.
[[nodiscard]] inline const Tensor* pointer(const std::optional<Tensor>& tensor) {
  return tensor.has_value() ? &*tensor : nullptr;
}

/// Returns the shape as text, such as "[2, 3]".
[[nodiscard]] std::string shape_text(const Tensor& tensor);

/// Throws unless all tensors are on the same device.
void require_one_device(const char* name, std::initializer_list<const Tensor*> tensors);

/// Returns an uninitialised tensor on the device of `like`, of torch's type number `type`.
[[nodiscard]] Tensor empty(const Tensor& like, const std::vector<std::int64_t>& sizes,
                           const std::vector<std::int64_t>& strides, std::int32_t type);
/// Returns an uninitialised dense tensor on the device of `like`, of the same type.
[[nodiscard]] Tensor empty(const Tensor& like, const std::vector<std::int64_t>& sizes);

/// Returns the tensor itself if it is dense and 16-byte aligned, or else a copy that is.
[[nodiscard]] Tensor dense(const Tensor& tensor);
/// Returns a dense copy.
[[nodiscard]] Tensor dense_copy(const Tensor& tensor);
/// Returns the tensor itself if it is dense, 16-byte aligned and float32, or else a copy that is.
[[nodiscard]] Tensor float32(const Tensor& tensor);

[[nodiscard]] std::vector<std::int64_t> tensor_sizes(const Tensor& tensor);
/// Returns the strides of dense, row-major memory.
[[nodiscard]] std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& sizes);
[[nodiscard]] bool is_aligned(const Tensor& tensor);

/// The place of a tensor: on a GPU with torch's current stream there, on the CPU with as many
/// threads as torch uses. Makes the GPU the current one for as long as it lives.
class Place {
 public:
  explicit Place(const Tensor& tensor);
  [[nodiscard]] const fovea_place* get() const { return &place_; }

 private:
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
  fovea_place place_{};
};

}  // namespace fovea::torch_operators
