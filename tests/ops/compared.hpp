// Whole matrices for the judge, which takes tiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "ops/reference/judge.hpp"

namespace fovea::ops::reference {

/// A matrix (rows, columns) as the tiles that are judged.
struct Compared {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  DType type = DType::kF32;  // of what was written
  std::span<const double> actual;
  std::span<const double> expected;
  std::span<const double> framework{};  // empty: only the normalised differences are judged
};

inline Verdict judge(const Compared& matrix, const Tolerance& tolerance,
                     std::int64_t edge = kTile) {
  std::vector<TileValues> tiles;
  for (std::int64_t row = 0; row < matrix.rows; row += edge) {
    for (std::int64_t column = 0; column < matrix.columns; column += edge) {
      TileValues& values = tiles.emplace_back();
      values.tile = {row, column, std::min(edge, matrix.rows - row),
                     std::min(edge, matrix.columns - column)};
      for (std::size_t i = 0; i < values.tile.count(); ++i) {
        const auto from = static_cast<std::size_t>(values.tile.output_row(i) * matrix.columns +
                                                   values.tile.output_column(i));
        values.actual.push_back(matrix.actual[from]);
        values.expected.push_back(matrix.expected[from]);
        if (!matrix.framework.empty()) {
          values.framework.push_back(matrix.framework[from]);
          values.unit.push_back(unit_in_last_place(matrix.type, matrix.expected[from]));
        }
      }
    }
  }
  return judge(tiles, tolerance);
}

}  // namespace fovea::ops::reference
