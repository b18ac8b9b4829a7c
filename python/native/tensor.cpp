// Access to tensors, devices and streams through torch's C functions.
#include "python/native/tensor.hpp"

#include <array>
#include <initializer_list>
#include <stdexcept>

#include <dlfcn.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

extern "C" int omp_get_max_threads();

namespace fovea::torch_operators {
namespace {

constexpr std::uintptr_t kAlignment = 16;

void check_torch(AOTITorchError error, const char* what) {
  if (error != TORCH_SUCCESS) {
    fail(std::string("fovea: torch cannot ") + what);
  }
}

std::int32_t device_type(const Tensor& tensor) {
  std::int32_t type = 0;
  check_torch(aoti_torch_get_device_type(tensor.get(), &type), "return the device of a tensor");
  return type;
}

/// Returns torch's current stream on a device. torch's function is looked up at run time, because
/// CPU builds of torch lack the CUDA library that exports it.
void* current_cuda_stream(std::int32_t device) {
  using Get = AOTITorchError (*)(std::int32_t, void**);
  static const Get get = [] {
    void* const library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    return library == nullptr
               ? nullptr
               : reinterpret_cast<Get>(dlsym(library, "aoti_torch_get_current_cuda_stream"));
  }();
  if (get == nullptr) {
    fail(
        "fovea: this version of torch does not export the current CUDA stream; install 2.9 or "
        "later");
  }
  void* stream = nullptr;
  check_torch(get(device, &stream), "return the current CUDA stream");
  return stream;
}

/// Returns whether autograd records operations on the tensor, in which case a view of it is not a
/// leaf; the stable interface cannot read requires_grad. Gradients must be enabled.
bool is_tracked(const Tensor& tensor) {
  std::array<StableIValue, 1> stack{torch::stable::detail::from(tensor)};
  check_torch(aoti_torch_call_dispatcher("aten::alias", "", stack.data()), "make a view");
  check_torch(aoti_torch_call_dispatcher("aten::is_leaf", "", stack.data()), "inspect a view");
  return !torch::stable::detail::to<bool>(stack[0]);
}

}  // namespace

void fail(const std::string& message) {
  throw std::runtime_error(message);
}

void require(bool holds, const char* name, const std::string& what) {
  if (!holds) {
    fail(std::string(name) + ": " + what);
  }
}

void reject_gradients(const char* name, std::initializer_list<const Tensor*> tensors) {
  if (!aoti_torch_grad_mode_is_enabled()) {
    return;
  }
  for (const Tensor* const tensor : tensors) {
    if (tensor != nullptr && is_tracked(*tensor)) {
      fail(std::string(name) +
           " does not support gradients, but one of its inputs requires them: call it under "
           "torch.no_grad() "
           "or torch.inference_mode(), or on detached tensors");
    }
  }
}

std::int32_t float_type(const char* name, const Tensor& tensor) {
  const std::int32_t type = element_type(name, tensor);
  require(type != FOVEA_U8 && type != FOVEA_I8, name, "expected float16, bfloat16 or float32");
  return type;
}

std::int32_t torch_type(const Tensor& tensor) {
  std::int32_t type = 0;
  check_torch(aoti_torch_get_dtype(tensor.get(), &type), "return the type of a tensor");
  return type;
}

std::int32_t element_type(const char* name, const Tensor& tensor) {
  const std::int32_t type = torch_type(tensor);
  if (type == aoti_torch_dtype_bfloat16()) {
    return FOVEA_BF16;
  }
  if (type == aoti_torch_dtype_float16()) {
    return FOVEA_F16;
  }
  if (type == aoti_torch_dtype_float32()) {
    return FOVEA_F32;
  }
  if (type == aoti_torch_dtype_uint8()) {
    return FOVEA_U8;
  }
  if (type == aoti_torch_dtype_int8()) {
    return FOVEA_I8;
  }
  fail(std::string(name) +
       ": unsupported type; expected float16, bfloat16 or float32 (patch_embed: also uint8 and "
       "int8)");
}

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (const std::int64_t size : tensor_sizes(tensor)) {
    text += (text.size() == 1 ? "" : ", ") + std::to_string(size);
  }
  return text + "]";
}

void require_one_device(const char* name, std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = **tensors.begin();
  for (const Tensor* const tensor : tensors) {
    if (tensor != nullptr && (device_type(*tensor) != device_type(first) ||
                              tensor->get_device_index() != first.get_device_index())) {
      fail(std::string(name) + ": the tensors are not all on the same device");
    }
  }
}

std::vector<std::int64_t> tensor_sizes(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return {sizes.begin(), sizes.end()};
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * (sizes[i] > 0 ? sizes[i] : 1);
  }
  return strides;
}

Tensor empty(const Tensor& like, const std::vector<std::int64_t>& sizes,
             const std::vector<std::int64_t>& strides, std::int32_t type) {
  AtenTensorHandle handle = nullptr;
  check_torch(aoti_torch_empty_strided(static_cast<std::int64_t>(sizes.size()), sizes.data(),
                                       strides.data(), type, device_type(like),
                                       like.get_device_index(), &handle),
              "allocate a tensor");
  return Tensor(handle);
}

Tensor empty(const Tensor& like, const std::vector<std::int64_t>& sizes) {
  return empty(like, sizes, dense_strides(sizes), torch_type(like));
}

bool is_aligned(const Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % kAlignment == 0;
}

Tensor dense_copy(const Tensor& tensor) {
  Tensor copy = empty(tensor, tensor_sizes(tensor));
  check_torch(aoti_torch_copy_(copy.get(), tensor.get(), 1), "copy a tensor");
  return copy;
}

Tensor dense(const Tensor& tensor) {
  return tensor.is_contiguous() && is_aligned(tensor) ? tensor : dense_copy(tensor);
}

Tensor float32(const Tensor& tensor) {
  if (torch_type(tensor) == aoti_torch_dtype_float32()) {
    return dense(tensor);
  }
  const std::vector<std::int64_t> sizes = tensor_sizes(tensor);
  Tensor copy = empty(tensor, sizes, dense_strides(sizes), aoti_torch_dtype_float32());
  check_torch(aoti_torch_copy_(copy.get(), tensor.get(), 1), "copy a tensor");
  return copy;
}

Place::Place(const Tensor& tensor) {
  if (!tensor.is_cuda()) {
    place_ = {.device = -1, .threads = omp_get_max_threads(), .stream = nullptr};
    return;
  }
  const std::int32_t device = tensor.get_device_index();
  guard_.emplace(device);
  place_ = {.device = device, .threads = 0, .stream = current_cuda_stream(device)};
}

}  // namespace fovea::torch_operators
