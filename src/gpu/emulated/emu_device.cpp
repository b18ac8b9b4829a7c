// EmuDevice: streams share one queue, whose grids the emulator runs when their results are needed.
#include "gpu/emulated/emu_device.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "core/device_name.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "core/wording.hpp"
#include "fovea_emulator/device.hpp"
#include "fovea_emulator/error.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "gpu/emulated/emu_orders.hpp"

namespace fovea::gpu {
namespace {

constexpr std::size_t kMemoryBytes = std::size_t{4} << 30;
/// Number of multiprocessors: the minimum that runs several clusters of two concurrently. The
/// smallest grids then have more tiles than blocks, and persistent blocks process several tiles.
constexpr int kSms = 4;
constexpr std::size_t kL2Bytes = std::size_t{1} << 20;

emu::TensorMapType emulated_type(TensorMapType type) {
  switch (type) {
    case TensorMapType::kU8:
      return emu::TensorMapType::kU8;
    case TensorMapType::kF16:
      return emu::TensorMapType::kF16;
    case TensorMapType::kF32:
      return emu::TensorMapType::kF32;
    case TensorMapType::kBF16:
      return emu::TensorMapType::kBF16;
  }
  fail("encoding a tensor map: unknown element type");
}

std::array<std::uint32_t, 3> sizes(const Dim3& size) {
  return {size.x, size.y, size.z};
}

/// Rethrows the emulator's errors as fovea::Error.
template <typename Call>
auto rethrow_as_error(const Call& call) {
  try {
    return call();
  } catch (const emu::Error& error) {
    fail("the emulator: {}", error.what());
  }
}

/// An item of a stream's work: a grid or another task.
struct Work {
  int stream = 0;
  std::optional<emu::Launch> launch{};
  std::function<void()> other{};
};

struct EventState {
  int pending = 0;  // recorded but not yet run
  std::chrono::steady_clock::time_point time{};
};

class EmuDevice;

class EmuStream final : public Stream {
 public:
  EmuStream(EmuDevice& device, int number) : device_(device), number_(number) {}
  void synchronize() override;
  void wait_for(const Event& event) override;
  [[nodiscard]] int number() const { return number_; }

 private:
  EmuDevice& device_;
  int number_;
};

int stream_number(const Stream& stream) {
  return static_cast<const EmuStream&>(stream).number();
}

class EmuEvent final : public Event {
 public:
  explicit EmuEvent(EmuDevice& device) : device_(device) {}
  void record(Stream& stream) override;
  void synchronize() override;
  /// Runs the work before the event: work only runs in calls that wait.
  [[nodiscard]] bool done() override {
    synchronize();
    return true;
  }
  [[nodiscard]] const EventState& state() const { return *state_; }

 private:
  EmuDevice& device_;
  std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
};

class EmuGraph final : public Graph {
 public:
  EmuGraph(EmuDevice& device, std::deque<Work> work) : device_(device), work_(std::move(work)) {}
  void launch(Stream& stream) override;

 private:
  EmuDevice& device_;
  std::deque<Work> work_;
};

class EmuDevice final : public Device {
 public:
  explicit EmuDevice(const EmuOptions& options)
      : info_(emulated_info(options.arch)), options_(options) {}

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }

  [[nodiscard]] DevicePtr allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (bytes > kMemoryBytes - used_) {
      throw OutOfMemory(
          fmt::format("allocating {:.1f} MiB on {}: it has {:.1f} MiB, and {:.1f} "
                      "are in use",
                      mebibytes(bytes), info_.name, mebibytes(kMemoryBytes), mebibytes(used_)));
    }
    const std::uint64_t address = emulator_.allocate(bytes);
    allocations_.emplace(address, bytes);
    used_ += bytes;
    return address;
  }
  void free(DevicePtr address) noexcept override {
    const std::lock_guard lock(mutex_);
    run_all();
    if (const auto found = allocations_.find(address); found != allocations_.end()) {
      emulator_.free(address);
      used_ -= found->second;
      allocations_.erase(found);
    }
  }
  [[nodiscard]] std::size_t free_memory() override {
    const std::lock_guard lock(mutex_);
    return kMemoryBytes - used_;
  }
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte> memory(std::max<std::size_t>(bytes, 1));
    std::byte* const address = memory.data();
    pinned_.emplace(address, std::move(memory));
    return address;
  }
  void free_pinned(void* address) noexcept override {
    const std::lock_guard lock(mutex_);
    run_all();
    pinned_.erase(static_cast<const std::byte*>(address));
  }

  [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<EmuStream>(*this, ++streams_);
  }
  [[nodiscard]] std::unique_ptr<Stream> borrow_stream(void* native_handle) override {
    if (native_handle != nullptr) {
      fail("{} cannot use the CUDA stream of another library", info_.name);
    }
    return std::make_unique<EmuStream>(*this, 0);
  }
  [[nodiscard]] std::unique_ptr<Event> make_event() override {
    return std::make_unique<EmuEvent>(*this);
  }
  [[nodiscard]] double seconds_between(const Event& start, const Event& end) override {
    const std::lock_guard lock(mutex_);
    const EventState& first = static_cast<const EmuEvent&>(start).state();
    const EventState& last = static_cast<const EmuEvent&>(end).state();
    if (first.pending > 0 || last.pending > 0) {
      fail("cannot measure the time staged two events: one of them has not completed");
    }
    return std::chrono::duration<double>(last.time - first.time).count();
  }

  void copy_to_device(DevicePtr to, std::span<const std::byte> from, Stream& stream) override {
    if (is_pinned(from)) {
      push(stream, [this, to, from] { emulator_.write(to, from); });
    } else {
      push(stream, [this, to, bytes = std::vector<std::byte>(from.begin(), from.end())] {
        emulator_.write(to, bytes);
      });
    }
  }
  void copy_to_host(std::span<std::byte> to, DevicePtr from, Stream& stream) override {
    push(stream, [this, to, from] { emulator_.read(to, from); });
    if (!is_pinned(to)) {
      stream.synchronize();
    }
  }
  void copy_on_device(DevicePtr to, DevicePtr from, std::size_t bytes, Stream& stream) override {
    push(stream, [this, to, from, bytes] {
      std::vector<std::byte> staged(bytes);
      emulator_.read(staged, from);
      emulator_.write(to, staged);
    });
  }
  void fill(DevicePtr to, std::uint8_t value, std::size_t bytes, Stream& stream) override {
    push(stream, [this, to, value, bytes] {
      emulator_.write(to, std::vector<std::byte>(bytes, std::byte{value}));
    });
  }

  [[nodiscard]] Module load(std::span<const std::byte> image) override {
    const std::string_view bytes = as_text(image);
    const std::string_view text = bytes.substr(0, bytes.find('\0'));
    const std::lock_guard lock(mutex_);
    modules_.push_back(rethrow_as_error([&] {
      constexpr std::size_t kMostBytes = std::size_t{4} << 30U;
      return emulator_.load(options_.edit_ptx ? options_.edit_ptx(text) : std::string(text),
                            kMostBytes, emu::Decode::kAtLaunch);
    }));
    return {.handle = &modules_.back()};
  }
  [[nodiscard]] Kernel find(Module module, std::string_view entry) override {
    auto& kernels = *static_cast<std::vector<emu::KernelHandle>*>(module.handle);
    const auto found = std::ranges::find(kernels, entry, &emu::KernelHandle::name);
    if (found == kernels.end()) {
      fail("finding kernel {} in its PTX: there is no kernel of this name", entry);
    }
    const std::lock_guard lock(mutex_);
    rethrow_as_error([&] { emulator_.decode(*found); });
    return {.handle = &*found};
  }

  [[nodiscard]] TensorMap encode(const TensorMapDesc& original) override {
    TensorMapDesc desc = original;
    if (options_.edit_map) {
      options_.edit_map(desc);
    }
    return std::bit_cast<TensorMap>(rethrow_as_error([&] {
      return emu::encode({.type = emulated_type(desc.type),
                          .rank = desc.rank,
                          .address = desc.address,
                          .dims = desc.dims,
                          .strides = desc.strides,
                          .box = desc.box,
                          .swizzle = static_cast<emu::TensorMapSwizzle>(desc.swizzle)});
    }));
  }

  void launch(Kernel kernel, const LaunchConfig& config, std::span<const std::byte> params,
              Stream& stream) override {
    if (config.dynamic_shared_bytes > info_.shared_bytes_per_block) {
      fail("launching a kernel with {} bytes of shared memory: {} has at most {} per block",
           config.dynamic_shared_bytes, info_.name, info_.shared_bytes_per_block);
    }
    add({.stream = stream_number(stream),
         .launch = emu::Launch{.kernel = *static_cast<const emu::KernelHandle*>(kernel.handle),
                               .config = {.grid = sizes(config.grid),
                                          .block = sizes(config.block),
                                          .cluster = sizes(config.cluster),
                                          .dynamic_shared_bytes = config.dynamic_shared_bytes,
                                          .is_dependent = config.dependent},
                               .parameters = {params.begin(), params.end()}}});
  }

  void begin_capture(Stream& stream) override {
    const std::lock_guard lock(mutex_);
    if (!captures_.try_emplace(stream_number(stream)).second) {
      fail("starting to capture a graph: the stream is already being captured");
    }
  }
  [[nodiscard]] std::unique_ptr<Graph> end_capture(Stream& stream) override {
    const std::lock_guard lock(mutex_);
    auto captured = captures_.extract(stream_number(stream));
    if (captured.empty()) {
      fail("ending the capture of a graph: the stream is not being captured");
    }
    return std::make_unique<EmuGraph>(*this, std::move(captured.mapped()));
  }

  void synchronize() override {
    wait_until([] { return false; });
  }
  [[nodiscard]] void* native_handle(Stream& /*stream*/) override {
    fail("{} cannot run NVIDIA's libraries", info_.name);
  }

  void begin_order(std::uint64_t seed, emu::TraceFunction trace) {
    synchronize();
    const std::lock_guard lock(mutex_);
    options_.seed = seed;
    runs_ = 0;
    trace_ = std::move(trace);
  }

  void push(const Stream& stream, std::function<void()> other) {
    add({.stream = stream_number(stream), .other = std::move(other)});
  }
  void add(Work work) {
    const std::lock_guard lock(mutex_);
    const auto capture = captures_.find(work.stream);
    (capture == captures_.end() ? queue_ : capture->second).push_back(std::move(work));
  }
  [[nodiscard]] bool is_captured(const Stream& stream) {
    const std::lock_guard lock(mutex_);
    return captures_.contains(stream_number(stream));
  }

  /// Runs queued work, in order, until `is_enough` returns true or the queue is empty.
  void wait_until(const std::function<bool()>& is_enough) {
    const std::lock_guard lock(mutex_);
    if (failed_) {
      std::rethrow_exception(std::exchange(failed_, nullptr));
    }
    run_until(is_enough);
  }
  [[nodiscard]] bool has_work(int stream) const {
    return std::ranges::any_of(queue_, [&](const Work& work) { return work.stream == stream; });
  }

 private:
  using Queue = std::deque<Work>;

  static double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

  [[nodiscard]] bool is_pinned(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    const auto after = pinned_.upper_bound(bytes.data());
    if (after == pinned_.begin()) {
      return false;
    }
    const std::vector<std::byte>& memory = std::prev(after)->second;
    return bytes.data() + bytes.size() <= memory.data() + memory.size();
  }

  void run_until(const std::function<bool()>& is_enough) {
    try {
      while (!queue_.empty() && !is_enough()) {
        if (queue_.front().launch.has_value()) {
          run_grids(take_grids());
        } else {
          const Work work = std::move(queue_.front());
          queue_.pop_front();
          rethrow_as_error(work.other);
        }
      }
    } catch (...) {
      queue_.clear();
      throw;
    }
  }

  /// Runs all queued work; the next call that waits throws the error, if any.
  void run_all() noexcept {
    try {
      run_until([] { return false; });
    } catch (...) {
      failed_ = std::current_exception();
    }
  }

  /// Takes the leading grids of the first item's stream, up to the stream's first other task: these
  /// grids may overlap. Work of other streams in staged does not depend on them, because that
  /// would need a wait, which is such a task.
  std::vector<emu::Launch> take_grids() {
    const int stream = queue_.front().stream;
    std::vector<emu::Launch> grids;
    Queue rest;
    bool only_grids = true;  // false after the stream's first task that is not a grid
    for (Work& work : queue_) {
      only_grids = only_grids && (work.stream != stream || work.launch.has_value());
      if (only_grids && work.stream == stream && work.launch.has_value()) {
        grids.push_back(*std::move(work.launch));
      } else {
        rest.push_back(std::move(work));
      }
    }
    queue_ = std::move(rest);
    return grids;
  }

  void run_grids(const std::vector<emu::Launch>& grids) {
    // Storing uninitialised padding is no error: results are poisoned beforehand and checked.
    emu::RunOptions options{.seed = next_seed(),
                            .check_stored_values = false,
                            .max_steps = options_.max_steps,
                            .trace = trace_};
    if (options_.ran) {
      options.trace = [this](const emu::TraceEvent& event) {
        if (event.kind == emu::TraceKind::kRun) {
          options_.ran(event.kernel, event.line);
        }
      };
    }
    emu::Report report = rethrow_as_error([&] { return emulator_.run(grids, options); });
    if (!report.is_clean()) {
      std::vector<std::string> texts;
      std::ranges::transform(report.findings, std::back_inserter(texts), &emu::Finding::text);
      throw KernelFault(fmt::format("{}", fmt::join(texts, "\n")), std::move(report.findings));
    }
  }

  /// Returns a different seed of the schedule for each run.
  std::uint64_t next_seed() { return (options_.seed << 32U) + runs_++; }

  DeviceInfo info_;
  EmuOptions options_;
  emu::TraceFunction trace_;
  std::recursive_mutex mutex_;
  emu::Device emulator_;
  std::map<DevicePtr, std::size_t> allocations_;
  std::size_t used_ = 0;
  std::map<const std::byte*, std::vector<std::byte>> pinned_;
  std::deque<std::vector<emu::KernelHandle>> modules_;
  Queue queue_;  // work of all streams, in the order of the calls
  std::map<int, Queue> captures_;
  std::exception_ptr failed_;
  std::uint64_t runs_ = 0;
  int streams_ = 0;
};

void EmuStream::synchronize() {
  device_.wait_until([this] { return !device_.has_work(number_); });
}

/// Pushes an empty task, which ends a sequence of overlapping grids: the queue runs in order, so
/// the event's work has run before.
void EmuStream::wait_for(const Event& /*event*/) {
  device_.push(*this, [] {});
}

void EmuEvent::record(Stream& stream) {
  if (device_.is_captured(stream)) {
    fail("an event cannot be recorded while its stream is captured into a graph");
  }
  ++state_->pending;
  device_.push(stream, [state = state_] {
    --state->pending;
    state->time = std::chrono::steady_clock::now();
  });
}

void EmuEvent::synchronize() {
  device_.wait_until([this] { return state_->pending == 0; });
}

void EmuGraph::launch(Stream& stream) {
  for (Work work : work_) {
    work.stream = stream_number(stream);
    device_.add(std::move(work));
  }
}

}  // namespace

DeviceInfo emulated_info(int arch, Archs archs) {
  const Arch* const row = find_arch(arch, archs);
  if (row == nullptr || row->target.empty()) {
    std::vector<std::string> devices;
    for (const std::string& target : emulated_targets(archs)) {
      devices.push_back(option_words("device", "emu:" + target));
    }
    fail("the emulator has no sm_{}; use {}", arch, listed(devices, "or"));
  }
  return {.name = fmt::format("PTX emulator of {}", row->target),
          .compute_major = arch / 10,
          .compute_minor = arch % 10,
          .sm_count = kSms,
          .memory_bytes = kMemoryBytes,
          .l2_bytes = kL2Bytes,
          .shared_bytes_per_block = row->shared_bytes,
          .clock_khz = 1'000'000,
          .driver_version = 13000,
          .is_emulated = true};
}

std::unique_ptr<Device> open_emulated_device(const EmuOptions& options) {
  return std::make_unique<EmuDevice>(options);
}

void begin_order(Device& device, std::uint64_t seed, emu::TraceFunction trace) {
  auto* const emulated = dynamic_cast<EmuDevice*>(&device);
  if (emulated == nullptr) {
    fail("cannot set the seed of the schedule: {} is not an emulated device", device.info().name);
  }
  emulated->begin_order(seed, std::move(trace));
}

}  // namespace fovea::gpu
