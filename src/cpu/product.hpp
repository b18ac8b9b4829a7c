// Matrix products: packed weights, and blocks of tiles that threads share.
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

/// Weights and bias of a linear layer in the order of the tiles.
class PackedWeights : public ops::Prepared {
 public:
  /// Packs for a layer that reads `input`: f32, bf16, or i8 and u8, for which the weights are
  /// rounded to i8 unless they are already.
  PackedWeights(const ops::LinearWeights& weights, DType input);

  [[nodiscard]] const TileKernel& kernel() const { return kernel_; }
  [[nodiscard]] std::int64_t out() const { return out_; }
  [[nodiscard]] const Unit* panels() const { return reinterpret_cast<const Unit*>(memory_.data()); }

  /// How a product with them ends, but for what the problem adds: epilogue and output.
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

/// What a product computes: part after part, of each of which A is packed first. `run` does so with
/// one thread, run_shared with many.
struct Product {
  const TileKernel& kernel;
  Rows a;                        // [rows, in]
  const Unit* panels;            // B [in, out]
  std::int64_t panel_units = 0;  // of a panel, of which a part has some
  std::int64_t out = 0;          // columns
  Finish finish{};               // of the first row and column
  Unit* packed = nullptr;        // memory for A: packed_units

  Product(const PackedWeights& weights, const Rows& input, ops::Epilogue epilogue,
          DType output_type, void* output, std::int64_t output_stride,
          const float* row_scale = nullptr);
  Product(const TileKernel& tiles, const Rows& input, const Unit* b, std::int64_t columns,
          const Finish& end);

  [[nodiscard]] std::int64_t units() const { return units_of(kernel, a.width); }
  [[nodiscard]] std::int64_t packed_units() const { return packed_size(kernel, a.rows, units()); }
  /// Tiles below each other, and panels side by side.
  [[nodiscard]] std::int64_t row_tiles() const;
  [[nodiscard]] std::int64_t column_panels() const;

  /// What is added to the output can be added in parts of the inner dimension: then a panel of B
  /// stays in the nearest caches. The parts depend on the inner dimension alone.
  [[nodiscard]] std::int64_t parts() const;
  [[nodiscard]] Product part(std::int64_t index) const;

  /// Tiles [first, first + count) of a part.
  void pack(std::int64_t first, std::int64_t count, AlignedBuffer<std::byte>& scratch) const;
  void multiply(std::int64_t first, std::int64_t count, std::int64_t first_panel,
                std::int64_t panel_count) const;
  /// All of it by this thread, in blocks that need less memory for A; `packed` is not used.
  void run(AlignedBuffer<Unit>& memory, AlignedBuffer<std::byte>& scratch) const;

 private:
  /// Rows [first, first + count), a multiple of the tiles' height or all that is left.
  [[nodiscard]] Product rows(std::int64_t first, std::int64_t count) const;
  /// Rows of A that stay in the nearest caches while all panels pass.
  [[nodiscard]] std::int64_t rows_in_cache() const;
};

/// enter and leave of the kernel.
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

/// Computes all of a product by threads that share it: `memory(units)` is for A, the same for all
/// of them; `share(count, task)` calls task(i) for every i below count, by any of them, and ends
/// when all are done; `scratch()` is of the calling thread.
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

/// The function for a tile of this height, which is one of the kernel's.
[[nodiscard]] TileFunction tile_function(const TileKernel& kernel, std::int64_t height);

}  // namespace fovea::cpu
