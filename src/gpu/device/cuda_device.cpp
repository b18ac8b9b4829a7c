// CudaDevice: implements Device by NVIDIA's driver API.
#include "gpu/device/cuda_device.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "gpu/device/device.hpp"
#include "gpu/device/driver_api.hpp"
#include "kernels/archs.hpp"

namespace fovea::gpu {
namespace {

using driver::api;
using driver::check;

/// Makes a context current within a scope. For destructors, which may run on any thread and cannot
/// report errors.
class ScopedContext {
 public:
  explicit ScopedContext(driver::Context context) {
    api().context_get(&before_);
    api().context_set(context);
  }
  ~ScopedContext() { api().context_set(before_); }
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  driver::Context before_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  /// Creates a stream in `context`, which must be current.
  explicit CudaStream(driver::Context context) : context_(context), owned_(true) {
    check(api().stream_create(&handle_, driver::kStreamNonBlocking), "creating a stream");
  }
  explicit CudaStream(driver::StreamHandle borrowed) : handle_(borrowed) {}
  ~CudaStream() override {
    if (owned_) {
      const ScopedContext scope(context_);
      api().stream_destroy(handle_);
    }
  }
  void synchronize() override { check(api().stream_synchronize(handle_), "running on the GPU"); }
  void wait_for(const Event& event) override;
  [[nodiscard]] driver::StreamHandle handle() const { return handle_; }

 private:
  driver::Context context_ = nullptr;
  driver::StreamHandle handle_ = nullptr;
  bool owned_ = false;
};

driver::StreamHandle raw_handle(const Stream& stream) {
  return static_cast<const CudaStream&>(stream).handle();
}

class CudaEvent final : public Event {
 public:
  /// Creates an event in `context`, which must be current.
  explicit CudaEvent(driver::Context context) : context_(context) {
    check(api().event_create(&handle_, driver::kEventBlockingSync), "creating an event");
  }
  ~CudaEvent() override {
    const ScopedContext scope(context_);
    api().event_destroy(handle_);
  }
  void record(Stream& stream) override {
    check(api().event_record(handle_, raw_handle(stream)), "recording an event");
  }
  void synchronize() override { check(api().event_synchronize(handle_), "running on the GPU"); }
  [[nodiscard]] bool done() override {
    const driver::Result result = api().event_query(handle_);
    if (result == driver::kNotReady) {
      return false;
    }
    check(result, "running on the GPU");
    return true;
  }
  [[nodiscard]] driver::EventHandle handle() const { return handle_; }

 private:
  driver::Context context_;
  driver::EventHandle handle_ = nullptr;
};

driver::EventHandle raw_handle(const Event& event) {
  return static_cast<const CudaEvent&>(event).handle();
}

void CudaStream::wait_for(const Event& event) {
  check(api().stream_wait(handle_, raw_handle(event), 0), "waiting for an event");
}

class CudaGraph final : public Graph {
 public:
  /// Instantiates `graph`, and destroys it, in `context`, which must be current.
  CudaGraph(driver::Context context, driver::GraphHandle graph) : context_(context) {
    const driver::Result result = api().graph_instantiate(&exec_, graph, 0);
    api().graph_destroy(graph);
    check(result, "instantiating a graph");
  }
  ~CudaGraph() override {
    const ScopedContext scope(context_);
    api().graph_exec_destroy(exec_);
  }
  void launch(Stream& stream) override {
    check(api().graph_launch(exec_, raw_handle(stream)), "launching a graph");
  }

 private:
  driver::Context context_;
  driver::GraphExec exec_ = nullptr;
};

int read_attribute(driver::DeviceId id, driver::DeviceAttribute attribute) {
  int value = 0;
  check(api().device_attribute(&value, attribute, id), "reading a property of the GPU");
  return value;
}

/// Reports compute capability 12.0, for which the program has no machine code, if
/// FOVEA_FORCE_PTX=1: any GPU from 9.0 on can then test the PTX that such GPUs run.
void force_ptx(DeviceInfo& info) {
  constexpr const char* kVariable = "FOVEA_FORCE_PTX";
  const char* const value = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): only read
  if (value == nullptr || *value == '\0' || std::string_view(value) == "0") {
    return;
  }
  constexpr int kMajor = 12;
  constexpr std::size_t kSharedBytes = arch_up_to(10 * kMajor, kArchs).shared_bytes;
  if (std::string_view(value) != "1" || info.compute_major < 9 || info.compute_major > kMajor) {
    fail("{}={} on {} (sm_{}); expected 0 or 1, and a GPU from compute capability 9.0 to {}.0",
         kVariable, value, info.name, info.arch(), kMajor);
  }
  info.name += fmt::format(", as if it were sm_{}0", kMajor);
  info.compute_major = kMajor;
  info.compute_minor = 0;
  info.shared_bytes_per_block = std::min(info.shared_bytes_per_block, kSharedBytes);
}

DeviceInfo read_info(driver::DeviceId id, int driver_version) {
  using enum driver::DeviceAttribute;
  std::array<char, 256> name{};
  check(api().device_name(name.data(), static_cast<int>(name.size()), id),
        "reading the GPU's name");
  std::array<char, 32> bus{};
  check(api().device_pci_bus_id(bus.data(), static_cast<int>(bus.size()), id),
        "reading the GPU's PCI address");
  DeviceInfo info;
  info.name = name.data();
  info.pci_bus_id = bus.data();
  info.compute_major = read_attribute(id, kComputeCapabilityMajor);
  info.compute_minor = read_attribute(id, kComputeCapabilityMinor);
  info.sm_count = read_attribute(id, kMultiprocessorCount);
  check(api().device_memory(&info.memory_bytes, id), "reading the GPU's memory size");
  info.l2_bytes = static_cast<std::size_t>(read_attribute(id, kL2CacheSize));
  info.shared_bytes_per_block =
      static_cast<std::size_t>(read_attribute(id, kMaxSharedMemoryPerBlockOptin));
  info.clock_khz = read_attribute(id, kClockRate);
  info.driver_version = driver_version;
  force_ptx(info);
  return info;
}

int tensor_type(TensorMapType type) {
  switch (type) {
    case TensorMapType::kU8:
      return 0;
    case TensorMapType::kF16:
      return 6;
    case TensorMapType::kF32:
      return 7;
    case TensorMapType::kBF16:
      return 9;
  }
  fail("encoding a tensor map: unknown element type");
}

class CudaDevice final : public Device {
 public:
  CudaDevice(driver::DeviceId id, int index, int driver_version,
             const std::function<void(DeviceInfo&)>& change)
      : id_(id), info_(read_info(id, driver_version)) {
    info_.index = index;
    if (change) {
      change(info_);
    }
    const driver::Result started = api().context_retain(&context_, id);
    check(started, fmt::format("creating a context on {}{}", info_.name,
                               started == driver::kOutOfMemory
                                   ? fmt::format(" (free memory on it, or use {})",
                                                 option_words("device", "cpu"))
                                   : ""));
  }
  ~CudaDevice() override {
    {
      const ScopedContext scope(context_);
      for (const driver::Module module : modules_) {
        api().module_unload(module);
      }
    }
    api().context_release(id_);
  }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }

  [[nodiscard]] ContextGuard hold_context() override {
    // Destructors call this, so it does not throw: the next call fails as well and reports the
    // error.
    driver::Context before = nullptr;
    if (api().context_get(&before) != driver::kSuccess) {
      return nullptr;
    }
    api().context_set(context_);
    int mode = driver::kCaptureModeRelaxed;
    api().capture_mode(&mode);  // exchanges `mode` with the previous mode
    // The deleter also runs if the previous context is null.
    return {static_cast<void*>(before), [mode](void* context) mutable {
              api().capture_mode(&mode);
              api().context_set(static_cast<driver::Context>(context));
            }};
  }

  [[nodiscard]] DevicePtr allocate(std::size_t bytes) override {
    enter();
    DevicePtr address = 0;
    // The driver refuses empty allocations.
    check(api().memory_allocate(&address, bytes == 0 ? 1 : bytes),
          fmt::format("allocating {:.1f} MiB on {}", static_cast<double>(bytes) / (1 << 20),
                      info_.name));
    return address;
  }
  void free(DevicePtr address) noexcept override {
    const ScopedContext scope(context_);
    api().memory_free(address);
  }
  [[nodiscard]] std::size_t free_memory() override {
    enter();
    std::size_t available = 0;
    std::size_t total = 0;
    check(api().memory_info(&available, &total), "reading the GPU's free memory");
    return available;
  }
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override {
    enter();
    void* address = nullptr;
    check(api().host_allocate(&address, bytes == 0 ? 1 : bytes, 0),
          fmt::format("allocating {:.1f} MiB of page-locked host memory",
                      static_cast<double>(bytes) / (1 << 20)));
    return address;
  }
  void free_pinned(void* address) noexcept override {
    const ScopedContext scope(context_);
    api().host_free(address);
  }

  [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
    enter();
    return std::make_unique<CudaStream>(context_);
  }
  [[nodiscard]] std::unique_ptr<Stream> borrow_stream(void* native_handle) override {
    return std::make_unique<CudaStream>(static_cast<driver::StreamHandle>(native_handle));
  }
  [[nodiscard]] std::unique_ptr<Event> make_event() override {
    enter();
    return std::make_unique<CudaEvent>(context_);
  }
  [[nodiscard]] double seconds_between(const Event& start, const Event& end) override {
    enter();
    float milliseconds = 0;
    check(api().event_elapsed(&milliseconds, raw_handle(start), raw_handle(end)),
          "reading the time between two events");
    return milliseconds * 1e-3;
  }

  void copy_to_device(DevicePtr to, std::span<const std::byte> from, Stream& stream) override {
    enter();
    check(api().copy_to_device(to, from.data(), from.size(), raw_handle(stream)),
          "copying to the GPU");
  }
  void copy_to_host(std::span<std::byte> to, DevicePtr from, Stream& stream) override {
    enter();
    check(api().copy_to_host(to.data(), from, to.size(), raw_handle(stream)),
          "copying from the GPU");
  }
  void copy_on_device(DevicePtr to, DevicePtr from, std::size_t bytes, Stream& stream) override {
    enter();
    check(api().copy_on_device(to, from, bytes, raw_handle(stream)), "copying on the GPU");
  }
  void fill(DevicePtr to, std::uint8_t value, std::size_t bytes, Stream& stream) override {
    enter();
    check(api().fill(to, value, bytes, raw_handle(stream)), "filling memory of the GPU");
  }

  [[nodiscard]] Module load(std::span<const std::byte> image) override {
    enter();
    driver::Module module = nullptr;
    const driver::Result result = api().module_load(&module, image.data(), 0, nullptr, nullptr);
    if (result == driver::kNoBinaryForGpu) {
      fail("the machine code is for another architecture than that of {} (sm_{})", info_.name,
           info_.arch());
    }
    if (result == driver::kJitCompilerNotFound) {
      fail(
          "the driver's compiler, libnvidia-ptxjitcompiler.so.1, is missing: {} (sm_{}) needs it, "
          "because this program has no machine code for it; install the whole driver, or use {}",
          info_.name, info_.arch(), option_words("device", "cpu"));
    }
    check(result, "loading machine code");
    const std::lock_guard lock(mutex_);
    modules_.push_back(module);
    return {.handle = module};
  }
  [[nodiscard]] Kernel find(Module module, std::string_view entry) override {
    enter();
    const std::string name(entry);
    driver::Function function = nullptr;
    check(
        api().module_function(&function, static_cast<driver::Module>(module.handle), name.c_str()),
        fmt::format("finding kernel {} in its machine code", name));
    // Allows a block to use all shared memory that its static variables leave.
    int static_bytes = 0;
    check(api().function_get(&static_bytes, driver::FunctionAttribute::kSharedBytes, function),
          "reading a kernel's resources");
    const int dynamic = static_cast<int>(info_.shared_bytes_per_block) - static_bytes;
    check(api().function_set(function, driver::FunctionAttribute::kMaxDynamicSharedBytes, dynamic),
          fmt::format("allowing kernel {} {} bytes of shared memory", name, dynamic));
    return {.handle = function};
  }

  [[nodiscard]] TensorMap encode(const TensorMapDesc& desc) override {
    // L2 misses fetch 256 bytes, since other blocks soon read the neighbouring data. Elements out
    // of bounds are read as zeros.
    constexpr int kInterleaveNone = 0;
    constexpr int kPromote256 = 3;
    constexpr int kFillZero = 0;
    constexpr std::array<std::uint32_t, 5> kUnitStrides{1, 1, 1, 1, 1};
    enter();
    TensorMap map{};
    const driver::Result result =
        api().tensor_map_encode(&map, tensor_type(desc.type), static_cast<std::uint32_t>(desc.rank),
                                // The driver takes the address as a pointer.
                                pointer<void>(desc.address), desc.dims.data(), desc.strides.data(),
                                desc.box.data(), kUnitStrides.data(), kInterleaveNone,
                                static_cast<int>(desc.swizzle), kPromote256, kFillZero);
    if (result != driver::kSuccess) {
      check(result,
            fmt::format("encoding a tensor map at {:#x} of dims [{}], strides [{}], box [{}]",
                        desc.address, fmt::join(desc.dims, ", "), fmt::join(desc.strides, ", "),
                        fmt::join(desc.box, ", ")));
    }
    return map;
  }

  void launch(Kernel kernel, const LaunchConfig& config, std::span<const std::byte> params,
              Stream& stream) override {
    enter();
    std::array<driver::LaunchAttribute, 2> attributes{};
    unsigned count = 0;
    if (config.cluster != Dim3{}) {
      attributes[count].id = driver::kLaunchAttributeClusterDimension;
      attributes[count].value.cluster = {config.cluster.x, config.cluster.y, config.cluster.z};
      ++count;
    }
    if (config.dependent) {
      attributes[count].id = driver::kLaunchAttributeProgrammaticStreamSerialization;
      attributes[count].value.flag = 1;
      ++count;
    }
    const driver::LaunchConfig native{
        .grid_x = config.grid.x,
        .grid_y = config.grid.y,
        .grid_z = config.grid.z,
        .block_x = config.block.x,
        .block_y = config.block.y,
        .block_z = config.block.z,
        .shared_bytes = static_cast<unsigned>(config.dynamic_shared_bytes),
        .stream = raw_handle(stream),
        .attributes = attributes.data(),
        .attribute_count = count,
    };
    // The driver only reads the parameter; the kernel declares its size.
    void* parameter = const_cast<std::byte*>(params.data());  // NOLINT
    std::size_t bytes = params.size();
    std::array<void*, 5> packed = {driver::kLaunchParameterBuffer, parameter,
                                   driver::kLaunchParameterBytes, &bytes, nullptr};
    const driver::Result result =
        config.packed_parameters
            ? api().launch(&native, static_cast<driver::Function>(kernel.handle), nullptr,
                           packed.data())
            : api().launch(&native, static_cast<driver::Function>(kernel.handle), &parameter,
                           nullptr);
    if (result != driver::kSuccess) {
      check(result, fmt::format("launching a kernel on a grid of {}x{}x{} blocks of {} threads, {} "
                                "bytes of shared memory",
                                config.grid.x, config.grid.y, config.grid.z,
                                config.block.x * config.block.y * config.block.z,
                                config.dynamic_shared_bytes));
    }
  }

  void begin_capture(Stream& stream) override {
    enter();
    check(api().capture_begin(raw_handle(stream), driver::kCaptureModeRelaxed),
          "starting to capture a graph");
  }
  [[nodiscard]] std::unique_ptr<Graph> end_capture(Stream& stream) override {
    enter();
    driver::GraphHandle graph = nullptr;
    check(api().capture_end(raw_handle(stream), &graph), "capturing a graph");
    return std::make_unique<CudaGraph>(context_, graph);
  }

  void synchronize() override {
    enter();
    check(api().context_synchronize(), "running on the GPU");
  }
  [[nodiscard]] void* native_handle(Stream& stream) override { return raw_handle(stream); }

 private:
  /// Makes the context current: the driver keeps one per thread, and any thread may call the
  /// device.
  void enter() const { check(api().context_set(context_), "using the GPU"); }

  driver::DeviceId id_;
  DeviceInfo info_;
  driver::Context context_ = nullptr;
  std::mutex mutex_;
  std::vector<driver::Module> modules_;
};

/// Starts the driver, and returns its version.
int start_driver() {
  const driver::Result started = api().init(0);
  if (started == driver::kNoDevice) {
    throw NoGpu(fmt::format("the NVIDIA driver finds no GPU on this machine; use {}",
                            option_words("device", "cpu")));
  }
  if (started == driver::kSystemDriverMismatch) {
    fail(
        "the versions of the NVIDIA driver's library and of the loaded kernel module differ: "
        "restart "
        "the machine after an update, or use {}",
        option_words("device", "cpu"));
  }
  check(started, "starting the NVIDIA driver");
  int version = 0;
  check(api().driver_version(&version), "reading the driver's version");
  if (version < driver::kMinVersion) {
    fail("the NVIDIA driver is too old: it supports CUDA {}.{}, Fovea needs {}", version / 1000,
         version % 1000 / 10, driver::kMinVersionText);
  }
  return version;
}

}  // namespace

int count_cuda_devices() {
  (void)start_driver();
  int count = 0;
  check(api().device_count(&count), "counting GPUs");
  return count;
}

std::unique_ptr<Device> open_cuda_device(int index) {
  return open_changed_cuda_device(index, {});
}

std::unique_ptr<Device> open_changed_cuda_device(int index,
                                                 const std::function<void(DeviceInfo&)>& change) {
  const int version = start_driver();
  const int count = count_cuda_devices();
  if (index < 0 || index >= count) {
    fail("there is no GPU {}; this machine has {}", index, count);
  }
  driver::DeviceId id = 0;
  check(api().device_get(&id, index), "opening the GPU");
  return std::make_unique<CudaDevice>(id, index, version, change);
}

}  // namespace fovea::gpu
