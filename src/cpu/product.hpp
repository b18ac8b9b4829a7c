// Matrix products: packed weights, and blocks of tiles that are distributed over threads.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "core/dtype.hpp"
#include "cpu/finish.hpp"
#include "cpu/pack.hpp"
#include "cpu/page_buffer.hpp"
#include "cpu/schedule.hpp"
#include "ops/call.hpp"
#include "ops/linear/op.hpp"

namespace fovea::cpu {

/// Weights and bias of a linear layer, packed in the order in which tiles read them.
class PackedWeights : public ops::Prepared {
 public:
  /// Packs for a layer that reads `input`: f32, bf16, or i8 and u8, for which the weights are
  /// rounded to i8 unless they are already.
  PackedWeights(const ops::LinearWeights& weights, DType input);

  [[nodiscard]] const TileKernel& kernel() const { return kernel_; }
  [[nodiscard]] std::int64_t out() const { return out_; }
  [[nodiscard]] const Unit* panels() const { return reinterpret_cast<const Unit*>(memory_.data()); }

  /// The Finish of a product with these weights, without the epilogue and the output, which the
  /// problem specifies.
  [[nodiscard]] Finish finish() const;

 private:
  const TileKernel& kernel_;
  std::int64_t out_;
  ops::Stored output_;
  PageBuffer memory_;
  AlignedBuffer<float> bias_;
  AlignedBuffer<float> column_scale_;
  AlignedBuffer<std::int32_t> column_offset_;
};

/// A matrix product, computed part after part; for each part A is packed first. `run` uses one
/// thread, run_shared several.
struct Product {
  const TileKernel& kernel;
  Rows a;                        // [rows, in]
  const Unit* panels;            // B [in, out]
  std::int64_t panel_units = 0;  // units of a whole panel, also in a part
  std::int64_t out = 0;          // columns
  Finish finish{};               // addresses of the first row and column
  Unit* packed = nullptr;        // memory for packed A, packed_units() units

  Product(const PackedWeights& weights, const Rows& input, ops::Epilogue epilogue,
          DType output_type, void* output, std::int64_t output_stride,
          const float* row_scale = nullptr);
  Product(const TileKernel& tiles, const Rows& input, const Unit* b, std::int64_t columns,
          const Finish& end);

  [[nodiscard]] std::int64_t units() const { return unit_count(kernel, a.width); }
  [[nodiscard]] std::int64_t packed_units() const { return packed_size(kernel, a.rows, units()); }
  /// Number of tiles along the rows, and of panels along the columns.
  [[nodiscard]] std::int64_t row_tiles() const;
  [[nodiscard]] std::int64_t column_panels() const;

  /// A product that is added to its output (residual) can be split along the inner dimension, so
  /// that a panel of B stays in the L1 and L2 cache. The parts depend only on the inner dimension.
  [[nodiscard]] std::int64_t parts() const;
  [[nodiscard]] Product part(std::int64_t index) const;

  /// Packs or multiplies tiles [first, first + count) of a part.
  void pack(std::int64_t first, std::int64_t count, AlignedBuffer<std::byte>& scratch) const;
  void multiply(std::int64_t first, std::int64_t count, std::int64_t first_panel,
                std::int64_t panel_count) const;
  /// Computes the whole product in this thread, in blocks that need less memory for A; `packed` is
  /// not used.
  void run(AlignedBuffer<Unit>& memory, AlignedBuffer<std::byte>& scratch) const;

 private:
  /// The product of rows [first, first + count). `count` is a multiple of the tiles' height, or all
  /// remaining rows.
  [[nodiscard]] Product rows(std::int64_t first, std::int64_t count) const;
  /// Number of rows of A that stay in the L2 cache while all panels are multiplied.
  [[nodiscard]] std::int64_t rows_in_cache() const;
};

/// Calls the kernel's `enter` and `leave` on construction and destruction.
class TileSession {
 public:
  explicit TileSession(const TileKernel& kernel) : kernel_(kernel) {
    if (kernel_.enter != nullptr) {
      kernel_.enter();
    }
  }
  ~TileSession() {
    if (kernel_.leave != nullptr) {
      kernel_.leave();
    }
  }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;

 private:
  const TileKernel& kernel_;
};

/// Computes a product with several threads. `memory(units)` returns memory for A, the same for all
/// threads; `share(count, task)` calls task(i) for every i below count, on any thread, and returns
/// when all are done; `scratch()` returns a buffer of the calling thread.
template <typename Memory, typename Share, typename Scratch>
void run_shared(const Product& product, int threads, const Memory& memory, const Share& share,
                const Scratch& scratch) {
  for (std::int64_t index = 0; index < product.parts(); ++index) {
    Product part = product.part(index);
    part.packed = memory(part.packed_units());
    share(part.row_tiles(), [&](std::int64_t tile) { part.pack(tile, 1, scratch()); });
    const Grid grid = plan_grid(part.row_tiles(), part.column_panels(), threads);
    share(grid.blocks(), [&](std::int64_t block) {
      part.multiply(grid.first_tile(block), grid.tiles(block), grid.first_panel(block),
                    grid.panels(block));
    });
  }
}

/// Returns the kernel's function for tiles of this height, which must be one of the kernel's
/// heights.
[[nodiscard]] TileFunction tile_function(const TileKernel& kernel, std::int64_t height);

}  // namespace fovea::cpu
