// Placement: a workload's tensors on the device, its output poisoned before and guarded around.
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

/// NaN in every float type.
inline constexpr std::uint8_t kPoison = 0xFF;
/// Other bytes: an element that is never written differs between runs, also one of integers.
inline constexpr std::uint8_t kOtherPoison = 0x7F;

class Placement {
 public:
  Placement(gpu::Device& device, const Workload& workload, gpu::Stream& stream);

  [[nodiscard]] const Operands& operands() const { return operands_; }

  /// Poison over the outputs and the guards around them; kernels that add to their output find its
  /// initial content.
  void reset(gpu::Stream& stream, std::uint8_t poison = kPoison);
  /// The values of these tiles as the kernel left them; waits for the stream.
  void read(std::span<TileValues> tiles, gpu::Stream& stream) const;
  /// What is wrong with the outputs' bytes as a whole, after a reset with kPoison: something was
  /// written before or after them, a scale is still NaN, or (outputs small enough to be read
  /// whole) an element is. Empty when nothing is.
  [[nodiscard]] std::string fault(gpu::Stream& stream) const;
  /// All bytes of the output, and of its scales where there are some.
  [[nodiscard]] std::vector<std::vector<std::byte>> outputs(gpu::Stream& stream) const;
  /// A number that other bytes in the outputs would change; of large ones, in their first part.
  [[nodiscard]] std::uint64_t fingerprint(gpu::Stream& stream) const;

 private:
  gpu::DevicePtr guarded(std::size_t bytes);
  [[nodiscard]] std::size_t row_scale_bytes() const {
    return static_cast<std::size_t>(spec_.rows) * sizeof(float);
  }
  [[nodiscard]] ops::BlockScales block_scales() const { return {spec_.rows, spec_.columns}; }
  /// The output's memory, and that of its scales.
  [[nodiscard]] std::vector<std::pair<gpu::DevicePtr, std::size_t>> outputs_at() const;
  /// Why these scales, of rows or blocks, are wrong whatever the numbers are.
  [[nodiscard]] std::string scales_fault(gpu::Stream& stream) const;
  [[nodiscard]] std::vector<std::byte> download(gpu::DevicePtr from, std::size_t bytes,
                                                gpu::Stream& stream) const;
  /// The same, good until the next call.
  [[nodiscard]] std::span<const std::byte> peek(gpu::DevicePtr from, std::size_t bytes,
                                                gpu::Stream& stream) const;

  gpu::Device& device_;
  OutputSpec spec_;
  Operands operands_;
  std::vector<gpu::DeviceBuffer> buffers_;
  mutable std::vector<std::byte> peeked_;
};

/// A tensor's elements on the device.
[[nodiscard]] gpu::DeviceBuffer upload(gpu::Device& device, const Tensor& tensor,
                                       gpu::Stream& stream);

}  // namespace fovea::lab
