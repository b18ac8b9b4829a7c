// A device of host memory whose streams do nothing until somebody waits for them: what the backend
// forgot to wait for has then not happened.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "gpu/bare_device.hpp"
#include "kernels/norm/norm_params.hpp"

namespace fovea::gpu {

/// What a stream is to do, and how much of it is done.
struct Queue {
  std::vector<std::function<void()>> work;
  std::size_t done = 0;
  std::vector<std::function<void()>>* capture = nullptr;  // where work goes meanwhile

  void push(std::function<void()> piece) {
    (capture != nullptr ? *capture : work).push_back(std::move(piece));
  }
  void run_to(std::size_t count) {
    while (done < count) {
      work[done++]();  // which may wait for other streams
    }
  }
};

class QueuedEvent final : public Event {
 public:
  void record(Stream& stream) override;
  void synchronize() override { queue_->run_to(at_); }
  /// False once, as of a GPU that is still at it.
  [[nodiscard]] bool done() override {
    if (!asked_) {
      asked_ = true;
      return false;
    }
    synchronize();
    return true;
  }
  [[nodiscard]] std::pair<Queue*, std::size_t> place() const { return {queue_, at_}; }

 private:
  Queue* queue_ = nullptr;
  std::size_t at_ = 0;
  bool asked_ = false;
};

class QueuedStream final : public Stream {
 public:
  explicit QueuedStream(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}
  void synchronize() override { queue_->run_to(queue_->work.size()); }
  void wait_for(const Event& event) override {
    const auto [queue, at] = static_cast<const QueuedEvent&>(event).place();
    queue_->push([queue, at] { queue->run_to(at); });
  }
  [[nodiscard]] Queue& queue() { return *queue_; }

 private:
  std::shared_ptr<Queue> queue_;
};

inline Queue& queue_of(Stream& stream) {
  return static_cast<QueuedStream&>(stream).queue();
}

inline void QueuedEvent::record(Stream& stream) {
  queue_ = &queue_of(stream);
  if (queue_->capture != nullptr) {
    fail("an event cannot be recorded while its stream is captured into a graph");
  }
  at_ = queue_->work.size();
  asked_ = false;
}

class QueuedGraph final : public Graph {
 public:
  QueuedGraph(std::vector<std::function<void()>> work, int& launches)
      : work_(std::move(work)), launches_(launches) {}
  void launch(Stream& stream) override {
    ++launches_;
    for (const std::function<void()>& piece : work_) {
      queue_of(stream).push(piece);
    }
  }

 private:
  std::vector<std::function<void()>> work_;
  int& launches_;
};

/// What a device went through, and what it allows; outlives it.
struct Ledger {
  std::size_t max_bytes = std::size_t{1} << 30;  // of device memory
  std::size_t bytes = 0;
  std::map<DevicePtr, std::size_t> memory;
  std::vector<std::shared_ptr<Queue>> queues;  // of all streams there were
  int pinned = 0;                              // buffers
  int captures = 0;
  int graph_launches = 0;
  int holds = 0;   // of the context, at the moment
  int unheld = 0;  // calls that nobody held the context for
};

/// Every kernel is y = x * weight + bias over rows of f32, the parameters being a LayerNorm's.
class QueuedDevice final : public BareDevice {
 public:
  explicit QueuedDevice(Ledger& ledger) : ledger_(ledger) {}

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] ContextGuard hold_context() override {
    ++ledger_.holds;
    Ledger* const ledger = &ledger_;
    return {static_cast<void*>(nullptr), [ledger](void*) { --ledger->holds; }};
  }
  [[nodiscard]] DevicePtr allocate(std::size_t bytes) override {
    note_hold();
    if (ledger_.bytes + bytes > ledger_.max_bytes) {
      throw OutOfMemory(fmt::format("allocating {} bytes", bytes));
    }
    constexpr std::size_t kAlignment = 256;
    const auto address = reinterpret_cast<DevicePtr>(
        std::aligned_alloc(kAlignment, bytes / kAlignment * kAlignment + kAlignment));
    ledger_.memory.emplace(address, bytes);
    ledger_.bytes += bytes;
    return address;
  }
  void free(DevicePtr address) noexcept override {
    ledger_.bytes -= ledger_.memory.at(address);
    ledger_.memory.erase(address);
    std::free(pointer(address));
  }
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override {
    note_hold();
    ++ledger_.pinned;
    return std::malloc(bytes + 1);
  }
  void free_pinned(void* address) noexcept override {
    --ledger_.pinned;
    std::free(address);
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
    note_hold();
    ledger_.queues.push_back(std::make_shared<Queue>());
    return std::make_unique<QueuedStream>(ledger_.queues.back());
  }
  [[nodiscard]] std::unique_ptr<Event> make_event() override {
    note_hold();
    return std::make_unique<QueuedEvent>();
  }
  [[nodiscard]] double seconds_between(const Event& start, const Event& end) override {
    const auto [queue, at] = static_cast<const QueuedEvent&>(end).place();
    if (queue->done < at || static_cast<const QueuedEvent&>(start).place().second > at) {
      fail("the time of what is not done");
    }
    return 0.001;
  }
  void copy_to_device(DevicePtr to, std::span<const std::byte> from, Stream& stream) override {
    note_hold();
    queue_of(stream).push([=] { std::memcpy(pointer(to), from.data(), from.size()); });
  }
  void copy_to_host(std::span<std::byte> to, DevicePtr from, Stream& stream) override {
    note_hold();
    queue_of(stream).push([=] { std::memcpy(to.data(), pointer(from), to.size()); });
  }
  void copy_on_device(DevicePtr to, DevicePtr from, std::size_t bytes, Stream& stream) override {
    note_hold();
    queue_of(stream).push([=] { std::memcpy(pointer(to), pointer(from), bytes); });
  }
  [[nodiscard]] Module load(std::span<const std::byte> /*image*/) override { return {}; }
  [[nodiscard]] Kernel find(Module /*module*/, std::string_view /*entry*/) override {
    note_hold();
    return {};
  }
  void launch(Kernel /*kernel*/, const LaunchConfig& /*config*/, std::span<const std::byte> params,
              Stream& stream) override {
    note_hold();
    norm::Params asked;
    if (params.size() != sizeof(asked)) {
      fail("this device has LayerNorms only");
    }
    std::memcpy(&asked, params.data(), sizeof(asked));
    queue_of(stream).push([asked] {
      for (std::int64_t i = 0; i < asked.rows * asked.width; ++i) {
        static_cast<float*>(asked.output)[i] =
            static_cast<const float*>(asked.input)[i] * asked.weight[i % asked.width] +
            asked.bias[i % asked.width];
      }
    });
  }
  void begin_capture(Stream& stream) override {
    ++ledger_.captures;
    captured_.clear();
    queue_of(stream).capture = &captured_;
  }
  [[nodiscard]] std::unique_ptr<Graph> end_capture(Stream& stream) override {
    queue_of(stream).capture = nullptr;
    return std::make_unique<QueuedGraph>(std::move(captured_), ledger_.graph_launches);
  }
  void synchronize() override {
    note_hold();
    for (const std::shared_ptr<Queue>& queue : ledger_.queues) {
      queue->run_to(queue->work.size());
    }
  }

 private:
  static void* pointer(DevicePtr address) { return reinterpret_cast<void*>(address); }
  void note_hold() { ledger_.unheld += ledger_.holds > 0 ? 0 : 1; }

  DeviceInfo info_{.name = "a device in host memory",
                   .compute_major = 9,
                   .sm_count = 132,
                   .shared_bytes_per_block = std::size_t{227} << 10};
  Ledger& ledger_;
  std::vector<std::function<void()>> captured_;
};

}  // namespace fovea::gpu
