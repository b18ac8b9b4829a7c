// The gate that an operator's output must pass, and random operands that can fail it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/dtype.hpp"
#include "core/tensor_view.hpp"
#include "ops/reference/operators.hpp"

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

/// ||got - want|| / ||want||, over all and over the worst tile. A tile's difference is set against
/// what a tile of the whole's mean square would hold, so that tiles near zero do not count more.
struct Difference {
  double whole = 0;
  double worst_tile = 0;
};

inline constexpr std::int64_t kTile = 32;

inline Difference difference(const Matrix& got, const Matrix& want) {
  double want_square = 0;
  double error_square = 0;
  double worst = 0;
  const double elements = static_cast<double>(want.rows() * want.columns());
  for (std::int64_t i = 0; i < want.rows() * want.columns(); ++i) {
    want_square += want.at(i) * want.at(i);
  }
  for (std::int64_t top = 0; top < want.rows(); top += kTile) {
    for (std::int64_t left = 0; left < want.columns(); left += kTile) {
      double tile = 0;
      double size = 0;
      for (std::int64_t r = top; r < std::min(top + kTile, want.rows()); ++r) {
        for (std::int64_t c = left; c < std::min(left + kTile, want.columns()); ++c) {
          const std::int64_t i = r * want.columns() + c;
          tile += (got.at(i) - want.at(i)) * (got.at(i) - want.at(i));
          ++size;
        }
      }
      error_square += tile;
      const double share = tile / (want_square * size / elements);
      worst = share <= worst ? worst : share;  // a NaN replaces, and stays
    }
  }
  return {.whole = std::sqrt(error_square / want_square), .worst_tile = std::sqrt(worst)};
}

/// Written so that NaN fails.
inline bool passes(const Matrix& got, const Matrix& want, double limit) {
  const Difference found = difference(got, want);
  return found.whole <= limit && found.worst_tile <= 4 * limit;
}

inline std::string describe(const Matrix& got, const Matrix& want) {
  const Difference found = difference(got, want);
  return fmt::format("difference {:.3g}, worst tile {:.3g}", found.whole, found.worst_tile);
}

/// A copy with one tile set to zero: the smallest damage that must be noticed.
inline Matrix with_zeroed_tile(const Matrix& matrix) {
  Matrix damaged = matrix;
  damaged.view.data = damaged.memory.data();
  const std::int64_t top = (matrix.rows() - 1) / kTile * kTile;
  const std::int64_t left = (matrix.columns() - 1) / kTile * kTile;
  for (std::int64_t r = top; r < matrix.rows(); ++r) {
    for (std::int64_t c = left; c < matrix.columns(); ++c) {
      ops::reference::store(damaged.view, r * matrix.columns() + c, 0);
    }
  }
  return damaged;
}

}  // namespace fovea::cpu
