// Access to torch's tensors for the operators, through the stable interface.
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

/// The operators have no gradients: throws when autograd would record one for any of the tensors.
void refuse_gradients(const char* name, std::initializer_list<const Tensor*> tensors);

/// The fovea_type of a tensor's elements; throws when there is none.
[[nodiscard]] std::int32_t type_of(const char* name, const Tensor& tensor);

/// The same for the float types in which the operators compute.
std::int32_t float_type(const char* name, const Tensor& tensor);

/// torch's number for the type.
[[nodiscard]] std::int32_t torch_type(const Tensor& tensor);

/// The tensor, or null.
[[nodiscard]] inline const Tensor* pointer(const std::optional<Tensor>& tensor) {
  return tensor.has_value() ? &*tensor : nullptr;
}

/// Returns "[2, 3]".
[[nodiscard]] std::string shape_of(const Tensor& tensor);

/// Throws unless all are on the same device.
void require_one_device(const char* name, std::initializer_list<const Tensor*> tensors);

/// An uninitialised tensor on the device of `like`, of torch's type number `type`.
[[nodiscard]] Tensor empty(const Tensor& like, const std::vector<std::int64_t>& sizes,
                           const std::vector<std::int64_t>& strides, std::int32_t type);
/// The same, dense, of the type of `like`.
[[nodiscard]] Tensor empty(const Tensor& like, const std::vector<std::int64_t>& sizes);

/// Dense and 16-byte aligned: the tensor itself or a copy.
[[nodiscard]] Tensor dense(const Tensor& tensor);
/// A dense copy.
[[nodiscard]] Tensor copied(const Tensor& tensor);
/// Dense and float32: the tensor itself or a copy.
[[nodiscard]] Tensor float32(const Tensor& tensor);

[[nodiscard]] std::vector<std::int64_t> sizes_of(const Tensor& tensor);
/// Strides of dense, row-major memory.
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
