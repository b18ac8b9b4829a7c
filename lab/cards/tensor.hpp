// Tensor: an input of a kernel, drawn at random, on the host and on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.hpp"

namespace fovea::lab {

/// Normally distributed values, clamped to what the type holds. A mean other than zero makes the
/// draw asymmetric, so that a lost sign shows.
struct Draw {
  double mean = 0.0;
  double deviation = 1.0;
};

/// A row-major tensor whose elements repeat a drawn block. The block's length is prime: no two
/// rows begin at the same place of it, and yet gigabytes need neither host memory nor an upload.
/// Smaller tensors are one block and repeat nothing. Copies share the block, which is drawn when it
/// is first looked at: a problem's sizes cost nothing.
class Tensor {
 public:
  Tensor() = default;
  static Tensor random(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                       Draw draw, std::uint64_t seed);
  /// The same value everywhere.
  static Tensor uniform(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                        double value);
  /// One row of bytes, as they are: what a kernel takes in an order of its own.
  static Tensor raw(std::string name, std::span<const std::byte> bytes);
  /// A tensor of these values, as many as rows * columns.
  static Tensor from_values(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                            std::span<const double> values);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] DType type() const { return type_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::int64_t count() const { return rows_ * columns_; }
  /// How it was drawn, if it was.
  [[nodiscard]] Draw draw() const { return draw_; }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(count()) * size_of(type_);
  }

  /// Element (row, column), exactly as stored.
  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const;
  /// Elements first, first + 1, ... in row-major order.
  void read(std::int64_t first, std::span<float> to) const;
  /// The elements of one row.
  [[nodiscard]] std::vector<float> row(std::int64_t index) const {
    std::vector<float> values(static_cast<std::size_t>(columns_));
    read(index * columns_, values);
    return values;
  }
  /// A tensor of the same name, shape and type with the same value everywhere.
  [[nodiscard]] Tensor filled(double value) const {
    return uniform(name_, type_, rows_, columns_, value);
  }
  /// What repeats: elements 0, 1, ... as stored.
  [[nodiscard]] std::span<const std::byte> block() const { return block_->bytes(); }

  /// A tensor of the same shape and type whose rows are those of this one, moved up by `by` rows
  /// (the first ones come last). Only of tensors that are one block.
  [[nodiscard]] Tensor rows_moved(std::int64_t count) const;
  /// The same with two spans of `width` columns swapped in every row.
  [[nodiscard]] Tensor columns_swapped(std::int64_t first, std::int64_t second,
                                       std::int64_t width) const;
  /// The same with two neighbouring columns swapped: of the first hundred, the two that differ most
  /// in the first row. Others might be all but equal.
  [[nodiscard]] Tensor neighbours_swapped() const;
  /// The same with one other element.
  [[nodiscard]] Tensor with_value(std::int64_t row, std::int64_t column, double value) const;

 private:
  class Block {
   public:
    using Bytes = std::vector<std::byte>;
    explicit Block(Bytes bytes) : bytes_(std::move(bytes)) {}
    explicit Block(std::function<Bytes()> draw) : draw_(std::move(draw)) {}
    /// Any thread may ask.
    [[nodiscard]] const Bytes& bytes() {
      std::call_once(once_, [this] {
        if (draw_) {
          bytes_ = std::exchange(draw_, nullptr)();
        }
      });
      return bytes_;
    }

   private:
    std::once_flag once_;
    std::function<Bytes()> draw_{};
    Bytes bytes_{};
  };

  [[nodiscard]] std::int64_t block_elements() const {
    return static_cast<std::int64_t>(block().size() / size_of(type_));
  }
  /// Rearranges the rows, as bytes, in the order that `source_element` says.
  template <typename Source>
  [[nodiscard]] Tensor rearranged(Source source_element) const;

  std::string name_;
  DType type_ = DType::kF32;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  Draw draw_;
  std::shared_ptr<Block> block_;
};

/// The element at `data`; of any type.
[[nodiscard]] float decode(DType type, const std::byte* data);
/// Rounds to nearest even, into `data`.
void encode(DType type, double value, std::byte* data);
/// The value after rounding to the type: what storing and reading it gives.
[[nodiscard]] float rounded(DType type, double value);
/// What is left of an intermediate result in a framework, which stores it in this type; exact
/// results in float64 stay as they are.
[[nodiscard]] inline double stored(DType /*type*/, double value) {
  return value;
}
[[nodiscard]] inline float stored(DType type, float value) {
  return rounded(type, double{value});
}

}  // namespace fovea::lab
