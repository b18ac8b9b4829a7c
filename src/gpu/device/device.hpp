// Device: the driver interface that the GPU backend and the laboratory use.
//
// CudaDevice implements it with libcuda. A software device can implement it as well, so that it
// does not depend on CUDA. Every call throws fovea::Error with the driver's name of the error.
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
  std::string pci_bus_id{};  // "0000:3B:00.0"; does not depend on which GPUs are visible
  int compute_major = 0;     // 9.0 for Hopper
  int compute_minor = 0;
  int sm_count = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  // maximum that a block can request
  int clock_khz = 0;                       // the highest SM clock
  int index = 0;                           // among the GPUs that the driver shows to this process
  int driver_version = 0;                  // 13000 for CUDA 13.0
  /// Emulators run PTX on the CPU: they load only PTX, their times mean nothing, and results are
  /// always copied to host memory.
  bool is_emulated = false;

  /// 90 for compute capability 9.0.
  [[nodiscard]] int arch() const { return compute_major * 10 + compute_minor; }
};

/// The device's memory does not suffice; a smaller batch may fit.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// The machine has no GPU or no GPU driver. Callers may use the CPU instead.
class NoGpu : public Error {
 public:
  using Error::Error;
};

/// Loaded machine code, valid during the lifetime of its device.
struct Module {
  void* handle = nullptr;
};

/// An entry point of a module, valid during the lifetime of its device.
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
  /// Programmatic dependent launch: the grid may start before the previous grid of the stream has
  /// ended; the kernel waits (griddepcontrol.wait) before it reads the results of that grid.
  bool dependent = false;
  /// Whether the parameters' bytes are all of the kernel's parameters, in the layout of its
  /// parameter space, rather than the only one.
  bool packed_parameters = false;
};

enum class TensorMapType : std::uint8_t { kU8, kF16, kBF16, kF32 };
/// How the TMA permutes 16-byte units in shared memory: within spans of this many bytes.
enum class Swizzle : std::uint8_t { kNone, k32, k64, k128 };

/// Describes a row-major tensor of up to five dimensions and the box that the TMA copies at once.
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

/// A queue of work, which runs in order.
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
  /// Whether all work before the recorded point has completed.
  [[nodiscard]] virtual bool done() = 0;
};

/// Work captured from a stream, which can be launched repeatedly as a whole.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
};

/// Keeps a device's context current on a thread; must be destroyed on that thread.
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

  /// Makes the device's context current on the calling thread until the result is destroyed, which
  /// restores the previous context, even after the device has been destroyed. Vendor libraries need
  /// this, too. While it is held, the thread may allocate, load and synchronise even if another
  /// stream is being captured, which the default capture mode forbids.
  [[nodiscard]] virtual ContextGuard hold_context() { return nullptr; }

  /// Allocates memory aligned to at least 256 bytes. Throws OutOfMemory.
  [[nodiscard]] virtual DevicePtr allocate(std::size_t bytes) = 0;
  virtual void free(DevicePtr address) noexcept = 0;
  [[nodiscard]] virtual std::size_t free_memory() = 0;
  /// Allocates page-locked host memory, which can be copied while kernels run.
  [[nodiscard]] virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* address) noexcept = 0;

  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  /// Wraps a caller's stream, given by its driver handle in the device's primary context; null is
  /// the default stream. The caller keeps ownership, and must keep the stream alive.
  [[nodiscard]] virtual std::unique_ptr<Stream> borrow_stream(void* native_handle) = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;
  /// Seconds between two recorded events, both of which must have completed.
  [[nodiscard]] virtual double seconds_between(const Event& start, const Event& end) = 0;

  /// Copies are asynchronous if the host memory is page-locked.
  virtual void copy_to_device(DevicePtr to, std::span<const std::byte> from, Stream& stream) = 0;
  virtual void copy_to_host(std::span<std::byte> to, DevicePtr from, Stream& stream) = 0;
  virtual void copy_on_device(DevicePtr to, DevicePtr from, std::size_t bytes, Stream& stream) = 0;
  virtual void fill(DevicePtr to, std::uint8_t value, std::size_t bytes, Stream& stream) = 0;

  /// Loads a cubin or PTX, which stays loaded until the device is destroyed. PTX must end in a zero
  /// byte, except on emulated devices.
  [[nodiscard]] virtual Module load(std::span<const std::byte> image) = 0;
  /// Finds an entry point of the module.
  [[nodiscard]] virtual Kernel find(Module module, std::string_view entry) = 0;

  [[nodiscard]] virtual TensorMap encode(const TensorMapDesc& desc) = 0;

  /// `params` is the kernel's only parameter, or all of them. If the kernel fails, a later call
  /// throws the error.
  virtual void launch(Kernel kernel, const LaunchConfig& config, std::span<const std::byte> params,
                      Stream& stream) = 0;

  /// Captures the operations that are put into the stream until end_capture, without running them.
  virtual void begin_capture(Stream& stream) = 0;
  [[nodiscard]] virtual std::unique_ptr<Graph> end_capture(Stream& stream) = 0;

  /// Waits for all work on the device; throws errors of kernels.
  virtual void synchronize() = 0;
  /// Returns the driver's handle of the stream, for vendor libraries.
  [[nodiscard]] virtual void* native_handle(Stream& stream) = 0;
};

/// Owns memory of a device, and releases it with `Free`.
template <typename Pointer, auto Free>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  ~OwnedMemory() {
    if (device_ != nullptr) {
      (device_->*Free)(address_);
    }
  }
  OwnedMemory(OwnedMemory&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        address_(std::exchange(other.address_, {})),
        bytes_(std::exchange(other.bytes_, 0)) {}
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    OwnedMemory moved(std::move(other));
    std::swap(device_, moved.device_);
    std::swap(address_, moved.address_);
    std::swap(bytes_, moved.bytes_);
    return *this;
  }

 protected:
  OwnedMemory(Device& device, Pointer address, std::size_t bytes)
      : device_(&device), address_(address), bytes_(bytes) {}

  Device* device_ = nullptr;
  Pointer address_{};
  std::size_t bytes_ = 0;
};

class DeviceBuffer : public OwnedMemory<DevicePtr, &Device::free> {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device& device, std::size_t bytes)
      : OwnedMemory(device, device.allocate(bytes), bytes) {}

  [[nodiscard]] DevicePtr address() const { return address_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
};

/// Page-locked host memory.
class PinnedBuffer : public OwnedMemory<void*, &Device::free_pinned> {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(Device& device, std::size_t bytes)
      : OwnedMemory(device, device.allocate_pinned(bytes), bytes) {}

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(address_), bytes_};
  }
};

/// Returns the number of GPUs visible to this process. Throws the errors of open_cuda_device.
[[nodiscard]] int count_cuda_devices();

/// Opens CUDA device `index`. Throws NoGpu if there is no driver library or no GPU, and Error in
/// other cases, for example if the driver is too old or there is no GPU of this index.
[[nodiscard]] std::unique_ptr<Device> open_cuda_device(int index = 0);

}  // namespace fovea::gpu
