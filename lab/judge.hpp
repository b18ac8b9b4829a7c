// The numerics contract: whether what a kernel wrote is right, and by how much.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lab/card.hpp"
#include "lab/workload.hpp"

namespace fovea::lab {

/// One tile: what came out, what should, and what a framework of the same precision gives.
struct TileValues {
  Tile tile;
  std::vector<double> actual;
  std::vector<double> expected;
  std::vector<double> framework;
};

struct Verdict {
  double error = 0.0;            // |actual - expected| / |expected|, all tiles together
  double framework_error = 0.0;  // the same of the framework's values
  double worst = 0.0;            // the largest |actual - expected|
  double framework_worst = 0.0;
  double difference = 0.0;       // 1 - 2<x,y> / (|x|^2 + |y|^2), all tiles together
  double tile_difference = 0.0;  // the same of the worst tile
  std::int64_t worst_row = 0;    // where the largest |actual - expected| is
  std::int64_t worst_column = 0;
  std::string reason;  // why it does not pass; empty when it does

  [[nodiscard]] bool passes() const { return reason.empty(); }
};

/// 1 - 2<x,y> / (|x|^2 + |y|^2): 0 when equal, 1 when one of them is zero; NaN when either has one.
[[nodiscard]] double normalised_difference(std::span<const double> x, std::span<const double> y);

[[nodiscard]] Verdict judge(std::span<const TileValues> tiles, const Tolerance& tolerance);

/// Why these are not the tiles of an output of which `row`, and no other, is NaN; empty when they
/// are.
[[nodiscard]] std::string wrong_nan(std::span<const TileValues> tiles, std::int64_t row);

/// Fills the expectations of these tiles, on all CPUs.
[[nodiscard]] std::vector<TileValues> expectations(const Workload& workload,
                                                   std::span<const Tile> tiles);
/// What `workload` gives in its own precision, put in place of the kernel's output.
void fill_emulated(const Workload& workload, std::span<TileValues> tiles);

}  // namespace fovea::lab
