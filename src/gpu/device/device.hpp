// Device: the narrow driver interface that the GPU backend and the laboratory run on.
//
// CudaDevice implements it over libcuda; a software device can implement it as well, so nothing
// here names CUDA. Every call throws fovea::Error with the driver's name for what went wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/address.hpp"
#include "fovea/error.hpp"
#include "kernels/tensor_map.hpp"

namespace fovea::gpu {

/// An address in the device's memory.
using DevicePtr = Address;

struct DeviceInfo {
  std::string name;          // "NVIDIA H200"
  std::string pci_bus_id{};  // "0000:3B:00.0": the same whatever devices a process may see
  int compute_major = 0;     // 9.0 for Hopper
  int compute_minor = 0;
  int sm_count = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  // the most that a block can ask for
  int clock_khz = 0;                       // the highest SM clock
  int index = 0;                           // among the GPUs that the driver shows to this process
  int driver_version = 0;                  // 13000 for CUDA 13.0
  /// Emulators run PTX on the CPU: they load PTX alone, times mean nothing, and the host's memory
  /// is its results'.
  bool is_emulated = false;

  /// 90 for compute capability 9.0.
  [[nodiscard]] int arch() const { return compute_major * 10 + compute_minor; }
};

/// No room in the device's memory; a smaller batch may fit.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// The machine has no GPU, or no driver for one, which is not a fault.
class NoGpu : public Error {
 public:
  using Error::Error;
};

/// Loaded machine code. Valid as long as its device.
struct Module {
  void* handle = nullptr;
};

/// A loaded entry point. Valid as long as its device.
struct Kernel {
  void* handle = nullptr;
};

struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

struct LaunchConfig {
  Dim3 grid{};
  Dim3 block{};
  Dim3 cluster{};  // 1x1x1: no cluster
  std::size_t dynamic_shared_bytes = 0;
  /// Programmatic dependent launch: the grid may start before the one ahead of it in the stream has
  /// ended; the kernel itself waits (griddepcontrol.wait) before it reads what that one wrote.
  bool dependent = false;
};

enum class TensorMapType : std::uint8_t { kU8, kF16, kBF16, kF32 };
/// Permutation of 16-byte units within shared memory, by the bytes of its span.
enum class Swizzle : std::uint8_t { kNone, k32, k64, k128 };

/// A box of a row-major tensor of up to five dimensions, as the TMA takes it.
struct TensorMapDesc {
  TensorMapType type = TensorMapType::kU8;
  DevicePtr address = 0;  // 16-byte aligned
  int rank = 2;
  std::array<std::uint64_t, 5> dims{};     // elements, innermost first
  std::array<std::uint64_t, 4> strides{};  // bytes between dims 1, 2, ...; multiples of 16
  std::array<std::uint32_t, 5> box{};      // elements, innermost first
  Swizzle swizzle = Swizzle::kNone;
};

class Event;

/// Work queue. Operations of one stream run in order.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronize() = 0;
  /// Makes later work in the stream wait for the event.
  virtual void wait_for(const Event& event) = 0;
};

/// A point in a stream's work.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream& stream) = 0;
  virtual void synchronize() = 0;
  /// Whether the work before the record has been done.
  [[nodiscard]] virtual bool done() = 0;
};

/// Work captured from a stream, to be launched again as one.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
};

/// Holds a device's context on the thread that made it, and ends on that thread.
using ContextGuard = std::shared_ptr<void>;

/// A GPU. Thread-safe. Most calls make the device's context current on the calling thread and leave
/// it so; use `hold_context` on threads of callers that use CUDA themselves.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual const DeviceInfo& info() const = 0;

  /// Makes the device's context current on the calling thread while the result lives, and then
  /// restores the previous context, even when the device was destroyed before. Also for vendor
  /// libraries, which use the current context. Meanwhile the thread may allocate, load and
  /// synchronise while another stream is captured, which the default capture mode forbids.
  [[nodiscard]] virtual ContextGuard hold_context() { return nullptr; }

  /// At least 256-byte aligned. Throws OutOfMemory when there is no room.
  [[nodiscard]] virtual DevicePtr allocate(std::size_t bytes) = 0;
  virtual void free(DevicePtr address) noexcept = 0;
  [[nodiscard]] virtual std::size_t free_memory() = 0;
  /// Page-locked host memory, which copies overlap with kernels.
  [[nodiscard]] virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* address) noexcept = 0;

  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  /// Wraps a caller's stream, given by its driver handle in the device's primary context; null is
  /// the default stream. The caller keeps ownership, and must keep the stream alive.
  [[nodiscard]] virtual std::unique_ptr<Stream> borrow_stream(void* native_handle) = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;
  /// Seconds between two recorded and done events.
  [[nodiscard]] virtual double seconds_between(const Event& start, const Event& end) = 0;

  /// Asynchronous in the stream when the host memory is page-locked.
  virtual void copy_to_device(DevicePtr to, std::span<const std::byte> from, Stream& stream) = 0;
  virtual void copy_to_host(std::span<std::byte> to, DevicePtr from, Stream& stream) = 0;
  virtual void copy_on_device(DevicePtr to, DevicePtr from, std::size_t bytes, Stream& stream) = 0;
  virtual void fill(DevicePtr to, std::uint8_t value, std::size_t bytes, Stream& stream) = 0;

  /// Loads a cubin, or PTX (text that ends in a zero byte; an emulated device takes it without
  /// one), which stays loaded as long as the device.
  [[nodiscard]] virtual Module load(std::span<const std::byte> image) = 0;
  /// An entry point of it.
  [[nodiscard]] virtual Kernel find(Module module, std::string_view entry) = 0;

  [[nodiscard]] virtual TensorMap encode(const TensorMapDesc& desc) = 0;

  /// `params` is the kernel's one parameter. A failure during the run shows in a later call.
  virtual void launch(Kernel kernel, const LaunchConfig& config, std::span<const std::byte> params,
                      Stream& stream) = 0;

  /// Captures what is put into the stream between the two calls, without running it.
  virtual void begin_capture(Stream& stream) = 0;
  [[nodiscard]] virtual std::unique_ptr<Graph> end_capture(Stream& stream) = 0;

  /// Waits for all work on the device; throws errors of kernels.
  virtual void synchronize() = 0;
  /// The stream as the driver's own handle, for vendor libraries that work on it.
  [[nodiscard]] virtual void* native_handle(Stream& stream) = 0;
};

/// Owns memory of a device, and releases it by `Free`.
template <typename Place, auto Free>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  ~OwnedMemory() {
    if (device_ != nullptr) {
      (device_->*Free)(place_);
    }
  }
  OwnedMemory(OwnedMemory&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        place_(std::exchange(other.place_, {})),
        bytes_(std::exchange(other.bytes_, 0)) {}
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    OwnedMemory taken(std::move(other));
    std::swap(device_, taken.device_);
    std::swap(place_, taken.place_);
    std::swap(bytes_, taken.bytes_);
    return *this;
  }

 protected:
  OwnedMemory(Device& device, Place place, std::size_t bytes)
      : device_(&device), place_(place), bytes_(bytes) {}

  Device* device_ = nullptr;
  Place place_{};
  std::size_t bytes_ = 0;
};

class DeviceBuffer : public OwnedMemory<DevicePtr, &Device::free> {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device& device, std::size_t bytes)
      : OwnedMemory(device, device.allocate(bytes), bytes) {}

  [[nodiscard]] DevicePtr address() const { return place_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
};

/// Page-locked host memory.
class PinnedBuffer : public OwnedMemory<void*, &Device::free_pinned> {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(Device& device, std::size_t bytes)
      : OwnedMemory(device, device.allocate_pinned(bytes), bytes) {}

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(place_), bytes_};
  }
};

/// The GPUs that the driver shows to this process. Throws as open_cuda_device does.
[[nodiscard]] int count_cuda_devices();

/// Opens CUDA device `index`. Throws NoGpu without the driver's library or a GPU, and Error that
/// says what is wrong with those that are there: the driver too old, no GPU of this index.
[[nodiscard]] std::unique_ptr<Device> open_cuda_device(int index = 0);

}  // namespace fovea::gpu
