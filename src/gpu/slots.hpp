// Slots: the memory for slices in flight; on the host it is page-locked.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "gpu/device/device.hpp"

namespace fovea::gpu {

/// Returns the size of ops::ImageShapes for this many images in bytes.
[[nodiscard]] constexpr std::size_t shape_bytes(std::int64_t images) {
  return static_cast<std::size_t>(3 * images + 1) * sizeof(std::int32_t);
}

/// Input and output of a slice in flight: while one computes, the next is copied.
struct Slot {
  PinnedBuffer staged_input;
  PinnedBuffer staged_output;
  PinnedBuffer staged_shapes;
  /// Shapes of images of different sizes: int32 starts (images + 1), grids (images, 2).
  DeviceBuffer shapes;
  DeviceBuffer input;
  DeviceBuffer output;
  std::unique_ptr<Event> uploaded;
  std::unique_ptr<Event> started;
  std::unique_ptr<Event> computed;
  std::unique_ptr<Event> done;
  std::span<std::byte> results;  // destination of the output; empty if the slot is free
};

/// All memory of a backend that depends on the size of slices.
struct Memory {
  std::int64_t images = 0;      // maximum number in a slice
  std::size_t input_bytes = 0;  // maximum per image, as are the next two
  std::size_t output_bytes = 0;
  std::size_t workspace_bytes = 0;
  DeviceBuffer workspace;
  DeviceBuffer scratch;
  std::array<Slot, 2> slots;

  Memory() = default;
  /// Throws OutOfMemory if it cannot allocate all buffers.
  Memory(Device& device, std::int64_t max_images, std::size_t input, std::size_t output,
         std::size_t workspace_each, std::size_t scratch_bytes)
      : images(max_images),
        input_bytes(input),
        output_bytes(output),
        workspace_bytes(workspace_each),
        workspace(device, workspace_each * static_cast<std::size_t>(max_images)),
        scratch(device, scratch_bytes) {
    const auto count = static_cast<std::size_t>(max_images);
    for (Slot& slot : slots) {
      slot.staged_input = PinnedBuffer(device, count * input);
      slot.staged_output = PinnedBuffer(device, count * output);
      slot.staged_shapes = PinnedBuffer(device, shape_bytes(max_images));
      slot.shapes = DeviceBuffer(device, shape_bytes(max_images));
      slot.input = DeviceBuffer(device, count * input);
      slot.output = DeviceBuffer(device, count * output);
      slot.uploaded = device.make_event();
      slot.started = device.make_event();
      slot.computed = device.make_event();
      slot.done = device.make_event();
    }
  }
};

}  // namespace fovea::gpu
