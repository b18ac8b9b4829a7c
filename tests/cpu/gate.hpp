// The gate that an operator's output must pass, and random operands that can fail it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/dtype.hpp"
#include "core/tensor_view.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/tensors.hpp"
#include "tests/ops/compared.hpp"

namespace fovea::cpu {

/// A matrix [rows, columns] with its memory.
struct Matrix {
  std::vector<double> memory;  // of doubles for their alignment
  TensorView view;

  Matrix(DType type, std::int64_t rows, std::int64_t columns) {
    view = {nullptr, type, {rows, columns}};
    memory.resize(view.bytes() / sizeof(double) + 1);
    view.data = memory.data();
  }
  [[nodiscard]] std::int64_t rows() const { return view.shape[0]; }
  [[nodiscard]] std::int64_t columns() const { return view.shape[1]; }
  [[nodiscard]] double at(std::int64_t index) const { return ops::reference::load(view, index); }
};

using Random = std::mt19937;

/// A sequence of its own for each test, and another one for each --gtest_random_seed.
inline Random seeded(std::uint32_t test) {
  return Random(test + 1000 * static_cast<std::uint32_t>(GTEST_FLAG_GET(random_seed)));
}

/// Normally distributed around `mean`: nothing symmetric, for means would hide sign errors.
inline Matrix random_matrix(Random& random, DType type, std::int64_t rows, std::int64_t columns,
                            double mean = 0.1, double deviation = 1.0) {
  Matrix matrix(type, rows, columns);
  std::normal_distribution<double> normal(mean, deviation);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    ops::reference::store(matrix.view, i, normal(random));
  }
  return matrix;
}

inline std::vector<float> random_floats(Random& random, std::int64_t count, double mean,
                                        double deviation) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::normal_distribution<double> normal(mean, deviation);
  std::ranges::generate(values, [&] { return static_cast<float>(normal(random)); });
  return values;
}

/// NaN everywhere: what an operator does not write is found.
inline Matrix poisoned(DType type, std::int64_t rows, std::int64_t columns) {
  Matrix matrix(type, rows, columns);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    ops::reference::store(matrix.view, i, std::numeric_limits<double>::quiet_NaN());
  }
  return matrix;
}

inline constexpr std::int64_t kTile = 32;

/// What the judge says of it within the limits of `type`, which its operands were rounded to.
inline ops::reference::Verdict verdict(const Matrix& got, const Matrix& want, DType type) {
  const auto values = [](const Matrix& matrix) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < matrix.rows() * matrix.columns(); ++i) {
      all.push_back(matrix.at(i));
    }
    return all;
  };
  const std::vector<double> actual = values(got);
  const std::vector<double> expected = values(want);
  const ops::reference::Compared matrix{
      .rows = want.rows(), .columns = want.columns(), .actual = actual, .expected = expected};
  return judge(matrix, ops::reference::tolerance_of(type), kTile);
}

/// A copy with one tile set to zero: the smallest damage that must be noticed.
inline Matrix with_zeroed_tile(const Matrix& matrix) {
  Matrix damaged = matrix;
  damaged.view.data = damaged.memory.data();
  const std::int64_t top = (matrix.rows() - 1) / kTile * kTile;
  const std::int64_t left = (matrix.columns() - 1) / kTile * kTile;
  const std::size_t size = size_of(matrix.view.dtype);
  for (std::int64_t r = top; r < matrix.rows(); ++r) {
    std::memset(
        damaged.view.as<std::byte>() + static_cast<std::size_t>(r * matrix.columns() + left) * size,
        0, static_cast<std::size_t>(matrix.columns() - left) * size);
  }
  return damaged;
}

}  // namespace fovea::cpu
