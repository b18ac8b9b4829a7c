// Searches in the codes of all rows in the memory of a GPU.
#pragma once

#include <memory>
#include <vector>

#include "gpu/device/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "search/row_scanner.hpp"

namespace fovea::search {

/// Limits on the amount of work per step of a search.
struct GpuScanLimits {
  std::int64_t queries = 256;    // per scan
  std::int64_t tiles = 2048;     // per query in a list of tiles
  std::int64_t pairs = 1 << 14;  // of a query and a tile, per computation of bounds
  std::int64_t scratch_bytes = std::int64_t{1} << 29;  // for the bounds of tiles in a scan
};

/// Returns a scanner on `device`. Throws fovea::Error when no kernels are built for the device.
/// `replacement_images`: machine code that replaces that of some kernels; must outlive the scanner.
[[nodiscard]] std::unique_ptr<RowScanner> make_gpu_scanner(
    std::unique_ptr<gpu::Device> device, const GpuScanLimits& limits = {},
    std::vector<const gpu::KernelImage*> replacement_images = {});

}  // namespace fovea::search
