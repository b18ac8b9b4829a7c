// CallerStream: keeps one open Device per GPU, which all caller streams share.
#include "gpu/caller_stream.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace fovea::gpu {

/// The state shared by all calls on a GPU.
class CallerStream::Gpu {
 public:
  explicit Gpu(int index)
      : device(open_cuda_device(index)), kernels(*device), planner(device->info()) {}

  const std::unique_ptr<Device> device;
  KernelCache kernels;
  Planner planner;

  [[nodiscard]] DevicePtr zeros(std::int64_t count) {
    const std::lock_guard lock(mutex_);
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    if (zeros_.empty() || zeros_.back().bytes() < bytes) {
      // The smaller buffers are kept, since running kernels may still read them.
      zeros_.emplace_back(*device, std::max(bytes, kMinZeros));
      const std::unique_ptr<Stream> stream = device->make_stream();
      device->fill(zeros_.back().address(), 0, zeros_.back().bytes(), *stream);
      stream->synchronize();
    }
    return zeros_.back().address();
  }

 private:
  static constexpr std::size_t kMinZeros = std::size_t{64} << 10;

  std::mutex mutex_;
  std::vector<DeviceBuffer> zeros_;
};

/// Opens a GPU on first use. It is never closed, since the driver may be unloaded earlier at exit.
CallerStream::Gpu& CallerStream::open(int device) {
  static std::mutex mutex;
  static auto* const gpus = new std::map<int, std::unique_ptr<Gpu>>;  // NOLINT: see above
  const std::lock_guard lock(mutex);
  std::unique_ptr<Gpu>& gpu = (*gpus)[device];
  if (!gpu) {
    gpu = std::make_unique<Gpu>(device);
  }
  return *gpu;
}

CallerStream::CallerStream(int device, void* stream, std::function<void(const std::string&)> notify)
    : gpu_(open(device)),
      context_guard_(gpu_.device->hold_context()),
      stream_(gpu_.device->borrow_stream(stream)),
      notify_(std::move(notify)) {}

Device& CallerStream::device() const {
  return *gpu_.device;
}

Planner& CallerStream::planner() const {
  return gpu_.planner;
}

void CallerStream::note(const std::string& notice) const {
  if (const std::string news = planner().news(notice); !news.empty()) {
    notify_(news);
  }
}

/// Launches without programmatic dependent launch: a kernel that starts early may read data that
/// the caller's kernels are still writing, since it waits only for the kernel directly before it.
void CallerStream::launch(Launch launch) const {
  launch.config.dependent = false;
  gpu_.kernels.run(launch, *stream_);
}

void CallerStream::gemm(const GemmProblem& problem, const GemmOperands& operands) const {
  const GemmChoice choice = planner().gemm(problem);
  if (!choice.support) {
    throw Error(choice.support.why);
  }
  note(choice.notice);
  launch(gemm_launch(device(), problem, operands, choice.plan));
}

DevicePtr CallerStream::zeros(std::int64_t count) const {
  return gpu_.zeros(count);
}

}  // namespace fovea::gpu
