// Placement: a workload's tensors in device memory, with poisoned outputs between guard regions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"
#include "lab/cards/workload.hpp"
#include "lab/check/judge.hpp"
#include "ops/block_scales.hpp"

namespace fovea::lab {

/// Poison for outputs: NaN in every float type.
inline constexpr std::uint8_t kPoison = 0xFF;
/// Alternative poison, so that unwritten elements differ between runs even if they are integers.
inline constexpr std::uint8_t kOtherPoison = 0x7F;

class Placement {
 public:
  Placement(gpu::Device& device, const Workload& workload, gpu::Stream& stream);

  [[nodiscard]] const Operands& operands() const { return operands_; }

  /// Fills the outputs and their guard regions with poison. Outputs of kernels that add to them get
  /// their initial content instead.
  void reset(gpu::Stream& stream, std::uint8_t poison = kPoison);
  /// Reads these tiles of the kernel's output; waits for the stream.
  void read(std::span<TileValues> tiles, gpu::Stream& stream) const;
  /// Returns what is wrong with the outputs as a whole after a reset with kPoison: a write before
  /// or after them, a scale that is NaN, or, in outputs small enough to be read completely, an
  /// element that is NaN. Empty if nothing is wrong.
  [[nodiscard]] std::string fault(gpu::Stream& stream) const;
  /// Returns all bytes of the output, and of its scales if it has any.
  [[nodiscard]] std::vector<std::vector<std::byte>> outputs(gpu::Stream& stream) const;
  /// Returns a hash of the outputs' bytes; only the first part of large outputs is hashed.
  [[nodiscard]] std::uint64_t fingerprint(gpu::Stream& stream) const;

 private:
  gpu::DevicePtr guarded(std::size_t bytes);
  [[nodiscard]] std::size_t row_scale_bytes() const {
    return static_cast<std::size_t>(spec_.rows) * sizeof(float);
  }
  [[nodiscard]] ops::BlockScales block_scales() const { return {spec_.rows, spec_.columns}; }
  /// Returns the addresses and sizes of the output and of its scales.
  [[nodiscard]] std::vector<std::pair<gpu::DevicePtr, std::size_t>> outputs_at() const;
  /// Returns an error for a row or block scale that is NaN or unwritten; empty if there is none.
  [[nodiscard]] std::string scales_fault(gpu::Stream& stream) const;
  [[nodiscard]] std::vector<std::byte> download(gpu::DevicePtr from, std::size_t bytes,
                                                gpu::Stream& stream) const;
  /// Reads device memory into a buffer that is valid until the next call.
  [[nodiscard]] std::span<const std::byte> peek(gpu::DevicePtr from, std::size_t bytes,
                                                gpu::Stream& stream) const;

  gpu::Device& device_;
  OutputSpec spec_;
  Operands operands_;
  std::vector<gpu::DeviceBuffer> buffers_;
  mutable std::vector<std::byte> peeked_;
};

/// Copies a tensor's elements to the device.
[[nodiscard]] gpu::DeviceBuffer upload(gpu::Device& device, const Tensor& tensor,
                                       gpu::Stream& stream);

}  // namespace fovea::lab
