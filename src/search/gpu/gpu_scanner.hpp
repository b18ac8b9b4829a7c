// Searches in the codes of all rows, held in a GPU's memory.
#pragma once

#include <memory>
#include <vector>

#include "gpu/device/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "search/row_scanner.hpp"

namespace fovea::search {

/// Limits on the amount of work per step of a search.
struct GpuScanLimits {
  std::int64_t queries = 256;    // that are scanned together
  std::int64_t tiles = 2048;     // of a query, that are listed together
  std::int64_t pairs = 1 << 14;  // of a query and a tile, whose bounds are fetched together
  std::int64_t scratch_bytes = std::int64_t{1} << 29;  // for the tiles' bounds of those queries
};

/// Throws fovea::Error when there are no kernels for the device. `instead`: other machine code for
/// some of them, which must outlive this.
[[nodiscard]] std::unique_ptr<RowScanner> make_gpu_scanner(
    std::unique_ptr<gpu::Device> device, const GpuScanLimits& limits = {},
    std::vector<const gpu::KernelImage*> instead = {});

}  // namespace fovea::search
