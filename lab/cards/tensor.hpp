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

/// A normal distribution, clamped to what the type holds. A mean other than zero makes it
/// asymmetric, so that losing a sign changes the result.
struct Draw {
  double mean = 0.0;
  double deviation = 1.0;
};

/// A row-major tensor whose elements repeat a randomly drawn block, so that tensors of gigabytes
/// need neither as much host memory nor an upload. The block's length is prime, so that no two rows
/// begin at the same offset in it. Smaller tensors consist of one block, without repetition. Copies
/// share the block, which is drawn on first access: constructing a tensor is cheap.
class Tensor {
 public:
  Tensor() = default;
  static Tensor random(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                       Draw draw, std::uint64_t seed);
  /// Makes a tensor with the same value everywhere.
  static Tensor uniform(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                        double value);
  /// Makes one row of raw bytes, for data in a kernel-specific layout.
  static Tensor raw(std::string name, std::span<const std::byte> bytes);
  /// Makes a tensor whose bytes `draw` returns, called on first access.
  static Tensor drawn_by(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                         std::function<std::vector<std::byte>()> draw);
  /// Makes a tensor from rows * columns values.
  static Tensor from_values(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                            std::span<const double> values);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] DType type() const { return type_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::int64_t count() const { return rows_ * columns_; }
  /// Returns the distribution that the elements were drawn from; meaningful only for random
  /// tensors.
  [[nodiscard]] Draw draw() const { return draw_; }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(count()) * size_of(type_);
  }

  /// Returns element (row, column), exactly as stored.
  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const;
  /// Reads elements first, first + 1, ... in row-major order.
  void read(std::int64_t first, std::span<float> to) const;
  /// Returns the elements of one row.
  [[nodiscard]] std::vector<float> row(std::int64_t index) const {
    std::vector<float> values(static_cast<std::size_t>(columns_));
    read(index * columns_, values);
    return values;
  }
  /// Returns a tensor of the same name, shape and type with the same value everywhere.
  [[nodiscard]] Tensor filled(double value) const {
    return uniform(name_, type_, rows_, columns_, value);
  }
  /// Returns the repeating block: elements 0, 1, ... as stored.
  [[nodiscard]] std::span<const std::byte> block() const { return block_->bytes(); }

  /// Returns a copy whose rows are rotated up by `count`, so that the first rows become the last.
  /// Throws fovea::Error if the tensor repeats its block.
  [[nodiscard]] Tensor rows_moved(std::int64_t count) const;
  /// Returns a copy with two spans of `width` columns swapped in every row.
  [[nodiscard]] Tensor columns_swapped(std::int64_t first, std::int64_t second,
                                       std::int64_t width) const;
  /// Returns a copy with two adjacent columns swapped: among the first hundred columns, the pair
  /// that differs most in the first row.
  [[nodiscard]] Tensor neighbours_swapped() const;
  /// Returns a copy in which one element has another value.
  [[nodiscard]] Tensor with_value(std::int64_t row, std::int64_t column, double value) const;

 private:
  class Block {
   public:
    using Bytes = std::vector<std::byte>;
    explicit Block(Bytes bytes) : bytes_(std::move(bytes)) {}
    explicit Block(std::function<Bytes()> draw) : draw_(std::move(draw)) {}
    /// Returns the bytes, drawn on the first call. Thread-safe.
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
  /// Returns a copy in which element (row, column) is the element with index source_element(row,
  /// column).
  template <typename Source>
  [[nodiscard]] Tensor rearranged(Source source_element) const;

  std::string name_;
  DType type_ = DType::kF32;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  Draw draw_;
  std::shared_ptr<Block> block_;
};

/// Decodes the element at `data`.
[[nodiscard]] float decode(DType type, const std::byte* data);
/// Rounds to nearest even and stores the result at `data`.
void encode(DType type, double value, std::byte* data);
/// Returns the value rounded to the type, as storing and reading it back would give.
[[nodiscard]] float rounded(DType type, double value);
/// Returns an intermediate result as a framework keeps it, rounded to this type; the float64
/// overload leaves exact results unchanged.
[[nodiscard]] inline double stored(DType /*type*/, double value) {
  return value;
}
[[nodiscard]] inline float stored(DType type, float value) {
  return rounded(type, double{value});
}

}  // namespace fovea::lab
