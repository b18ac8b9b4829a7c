// Shape and TensorView: a non-owning, dense, row-major view of typed memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace fovea {

/// Dimensions of a row-major tensor, outermost first.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}

  [[nodiscard]] std::size_t rank() const { return dims_.size(); }
  [[nodiscard]] std::int64_t operator[](std::size_t axis) const { return dims_.at(axis); }
  [[nodiscard]] std::span<const std::int64_t> dims() const { return dims_; }

  /// Product of the dimensions (1 for rank 0). Throws on overflow.
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t dim : dims_) {
      if (dim < 0 || (dim != 0 && product > std::numeric_limits<std::int64_t>::max() / dim)) {
        fail("shape {} has a negative dimension or too many elements", to_string());
      }
      product *= dim;
    }
    return product;
  }

  /// "[2, 3]", as in messages.
  [[nodiscard]] std::string to_string() const {
    std::string text = "[";
    for (std::size_t axis = 0; axis < dims_.size(); ++axis) {
      text += (axis == 0 ? "" : ", ") + std::to_string(dims_[axis]);
    }
    return text + "]";
  }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<std::int64_t> dims_;
};

/// Typed memory without ownership. `data` may point to device memory.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data);
  }
};

/// The same, read-only.
struct ConstTensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  ConstTensorView() = default;
  ConstTensorView(const void* pointer, DType type, Shape dims)
      : data(pointer), dtype(type), shape(std::move(dims)) {}
  ConstTensorView(const TensorView& view)  // NOLINT(google-explicit-constructor): as T* to const T*
      : data(view.data), dtype(view.dtype), shape(view.shape) {}

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  }
  template <typename T>
  [[nodiscard]] const T* as() const {
    return static_cast<const T*>(data);
  }
};

}  // namespace fovea
