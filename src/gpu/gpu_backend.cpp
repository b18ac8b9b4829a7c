// GpuBackend: weights on the device, and batches cut into slices that are copied and computed side
// by side.
#include "gpu/gpu_backend.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <tuple>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "core/wording.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/device_output.hpp"
#include "gpu/gpu_executor.hpp"
#include "gpu/gpu_weights.hpp"
#include "gpu/launch/attention.hpp"
#include "gpu/page_locked.hpp"
#include "gpu/slots.hpp"
#include "ops/operand_types.hpp"

namespace fovea::gpu {
namespace {

/// The target number of tokens per slice: enough to fill the GPU many times over.
constexpr std::int64_t kSliceTokens = 512 * 196;
/// The divisor for the size of the first slice, which is smaller since nothing is computed while it
/// is copied.
constexpr std::int64_t kFirstSlicePart = 4;
/// Larger batches are cut into slices of a multiple of this many images, so that tiles of 128 rows
/// divide the rows of a slice.
constexpr std::int64_t kImageMultiple = 32;
/// The number of images from which a slice takes several milliseconds, so that the host sleeps
/// until it is done instead of polling.
constexpr std::int64_t kLongSlice = 64;
/// The preferred number of images in a batch: several slices for common models, so that copies
/// overlap with computation.
constexpr std::int64_t kPreferredBatch = 512;
/// The maximum number of cached graphs: enough for all sizes of small slices and the usual large
/// ones.
constexpr std::size_t kMaxGraphs = 256;
/// Maximum bytes of a slice's results, of which four buffers exist; larger slices get fewer images.
constexpr std::size_t kMaxOutputBytes = std::size_t{1} << 27;
/// Staging copies are cut into parts of this many bytes for the host's threads.
constexpr std::size_t kCopyPart = std::size_t{1} << 18;

/// Returns the tensor types for a precision. The output of attention stays in bf16, which gains the
/// most accuracy at little cost.
ops::TensorTypes tensor_types(Precision precision) {
  const ops::OperandTypes& operands = ops::operand_types(precision);
  return {.stream = DType::kBF16,
          .normed = operands.normed,
          .qkv = DType::kBF16,
          .attended = DType::kBF16,
          .inner = operands.inner,
          .row_scales = operands.row_scales()};
}

Precision choose_precision(Precision requested, const DeviceInfo& info) {
  if (requested == Precision::kAuto || requested == Precision::kBf16) {
    return Precision::kBf16;  // cuBLASLt computes products without a tuned kernel
  }
  const PrecisionInfo& row = info_of(requested);
  if (!row.on_gpus) {
    fail("{} is computed on the CPU only: use {}, or bf16 on {}", row.name,
         option_words("device", "cpu"), info.name);
  }
  const ops::TensorTypes types = tensor_types(requested);
  // Checks one product for each of the two types, such as QKV for `normed` and FC2 for `inner`.
  for (const auto& [type, epilogue] : {std::pair(types.normed, GemmEpilogue::kBias),
                                       std::pair(types.inner, GemmEpilogue::kResidual)}) {
    const GemmProblem problem{
        .m = 128, .n = 128, .k = 128, .a = type, .b = type, .epilogue = epilogue};
    if (const Support support = gpu::can_run(problem, info); !support) {
      const std::string elsewhere =
          row.gpus.empty() ? "" : fmt::format("; {} have tensor cores for it", row.gpus);
      fail("{} cannot run on {} (sm_{}): {}{}. Use bf16", row.name, info.name, info.arch(),
           support.why, elsewhere);
    }
  }
  return requested;
}

class GpuBackend final : public ops::Backend {
 public:
  GpuBackend(std::unique_ptr<Device> device, const GpuOptions& options)
      : options_(options),
        device_(std::move(device)),
        page_locked_(std::make_shared<PageLocked>(device_)),
        precision_(choose_precision(options.precision, device_->info())),
        types_(tensor_types(precision_)),
        kernels_(*device_),
        planner_(device_->info()),
        cublas_(*device_, notes_),
        uploader_(*device_, precision_),
        pool_(options.threads > 0 ? options.threads : available_threads()),
        compute_(device_->make_stream()),
        upload_(device_->make_stream()),
        download_(device_->make_stream()),
        stopwatch_(*device_) {}
  /// Holds the device's context until all members that use it are destroyed.
  ~GpuBackend() override { context_guard_ = device_->hold_context(); }

  [[nodiscard]] std::string description() const override {
    const DeviceInfo& info = device_->info();
    return fmt::format("{} ({}, sm_{}), {}", info.is_emulated ? "emu" : "cuda", info.name,
                       info.arch(), to_string(precision_));
  }
  [[nodiscard]] Precision precision() const override { return precision_; }
  [[nodiscard]] int threads() const override { return pool_.threads(); }
  [[nodiscard]] std::int64_t preferred_batch() const override { return kPreferredBatch; }
  [[nodiscard]] std::string take_note() override {
    const std::lock_guard lock(run_mutex_);
    std::string note = std::exchange(note_, {});
    const std::string others = notes_.take();
    return note + (note.empty() || others.empty() ? "" : "; ") + others;
  }
  [[nodiscard]] ops::TensorTypes types() const override { return types_; }

  [[nodiscard]] Support can_run(const ops::BackendProblem& problem) const override {
    return std::visit(
        [this](const auto& alternative) { return ops::can_run(alternative, *device_); }, problem);
  }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    pool_.parallel_for(count, [&](std::size_t index, int /*worker*/) { task(index); });
  }

  void run(const ops::Batch& batch,
           const std::function<void(ops::Executor&, const ops::Slice&)>& network) override;

  [[nodiscard]] ops::Profile profile() const override {
    const std::lock_guard lock(run_mutex_);
    return times_;
  }
  void reset_profile() override {
    const std::lock_guard lock(run_mutex_);
    times_ = {};
    device_seconds_ = 0;
  }
  [[nodiscard]] double device_seconds() const override {
    const std::lock_guard lock(run_mutex_);
    return device_seconds_;
  }

  [[nodiscard]] HostBuffer allocate_input(std::size_t bytes) override {
    const ContextGuard context_guard = device_->hold_context();
    return page_locked_->allocate(bytes);
  }
  [[nodiscard]] std::shared_ptr<ops::OutputMemory> allocate_output(std::size_t bytes) override {
    const ContextGuard context_guard = device_->hold_context();
    return device_->info().is_emulated ? ops::Backend::allocate_output(bytes)
                                       : std::make_shared<DeviceOutput>(device_, bytes);
  }

 private:
  using Network = std::function<void(ops::Executor&, const ops::Slice&)>;

  [[nodiscard]] ops::PreparedPtr do_prepare(const ops::Weights& weights) override {
    const ContextGuard context_guard = device_->hold_context();
    return std::visit([this](const auto& layer) { return ops::prepare(layer, uploader_); },
                      weights);
  }

  /// Whether results stay on the device. Those of an emulated device are always copied to the host.
  [[nodiscard]] bool output_stays(const ops::Batch& batch) const {
    return batch.output_stays && !device_->info().is_emulated;
  }
  [[nodiscard]] std::int64_t max_images(const ops::Batch& batch) const;
  [[nodiscard]] std::vector<std::int64_t> reserve(const ops::Batch& batch,
                                                  const ops::BatchRows& rows,
                                                  const Network& network);
  [[nodiscard]] std::size_t measure_scratch(const ops::Batch& batch, std::int64_t images,
                                            const Network& network);
  void launch(const ops::Network& identity, std::size_t slot, const ops::Slice& slice,
              const Network& network);
  void call(const ops::Slice& slice, const Network& network, Stopwatch* stopwatch);
  void begin(std::size_t slot, const ops::Batch& batch, const ops::BatchRows& rows,
             std::int64_t first, std::int64_t images, bool is_single, const Network& network);
  void finish(Slot& slot, const ops::Batch& batch);
  void copy(std::span<const std::byte> from, std::span<std::byte> to);

  ContextGuard context_guard_;  // declared first, so destroyed last
  GpuOptions options_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<PageLocked> page_locked_;
  Precision precision_;
  ops::TensorTypes types_;
  KernelCache kernels_;
  Planner planner_;
  Notes notes_;
  CublasGemm cublas_;
  Uploader uploader_;
  ThreadPool pool_;
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> upload_;
  std::unique_ptr<Stream> download_;

  mutable std::mutex run_mutex_;  // guards all below
  Memory memory_;
  /// The network and the number of images per slice for which `measured_scratch_` was measured.
  std::pair<ops::Network, std::int64_t> measured_for_{};
  std::size_t measured_scratch_ = 0;
  std::int64_t limit_ = 0;  // maximum images per slice, after memory has run out; 0: no limit
  std::string note_;
  /// Graphs by network, number of images, number of rows (if images differ in size) and slot; null
  /// after the first run of such a slice.
  LruCache<std::tuple<ops::Network, std::int64_t, std::int64_t, std::size_t>,
           std::unique_ptr<Graph>>
      graphs_{kMaxGraphs};
  Stopwatch stopwatch_;
  ops::Profile times_;
  double device_seconds_ = 0;
};

std::int64_t GpuBackend::max_images(const ops::Batch& batch) const {
  std::int64_t limit = options_.slice_images;
  if (limit <= 0) {
    const std::size_t each =
        std::max<std::size_t>(1, batch.output.size() / static_cast<std::size_t>(batch.images));
    limit = std::clamp<std::int64_t>(static_cast<std::int64_t>(kMaxOutputBytes / each), 1,
                                     std::max<std::int64_t>(1, kSliceTokens / batch.tokens));
  }
  return limit_ > 0 ? std::min(limit, limit_) : limit;
}

std::size_t GpuBackend::measure_scratch(const ops::Batch& batch, std::int64_t images,
                                        const Network& network) {
  GpuExecutor executor({*device_, kernels_, planner_, cublas_, notes_}, nullptr, {}, nullptr);
  // Operators do not access the addresses while they are only measured, but refuse null.
  constexpr DevicePtr kPlaceholder = 256;
  ops::Slice slice{.first = 0,
                   .images = images,
                   .input = reinterpret_cast<const std::uint8_t*>(kPlaceholder),
                   .output = reinterpret_cast<std::byte*>(kPlaceholder),
                   .workspace = reinterpret_cast<std::byte*>(kPlaceholder)};
  if (!batch.grids.empty()) {  // measures as if all images had the maximum size
    slice.shapes = {.rows = images * batch.tokens, .starts = kPlaceholder, .grids = kPlaceholder};
  }
  network(executor, slice);
  return executor.scratch_needed();
}

/// Allocates memory for the batch's slices and returns their sizes. If there is not enough memory,
/// tries slices of half the size once.
std::vector<std::int64_t> GpuBackend::reserve(const ops::Batch& batch, const ops::BatchRows& rows,
                                              const Network& network) {
  const std::size_t input = rows.max_input_bytes();
  const std::size_t output = batch.output.size() / static_cast<std::size_t>(batch.images);
  for (;;) {
    std::vector<std::int64_t> plan = plan_slices(batch.images, max_images(batch));
    const std::int64_t largest = std::ranges::max(plan);
    if (measured_for_ != std::pair(batch.network, largest)) {
      measured_scratch_ = measure_scratch(batch, largest, network);
      measured_for_ = {batch.network, largest};
    }
    const std::size_t scratch = measured_scratch_;
    if (memory_.images >= largest && memory_.input_bytes == input &&
        memory_.output_bytes == output &&
        memory_.workspace_bytes == batch.workspace_bytes_per_image &&
        memory_.scratch.bytes() >= scratch) {
      return plan;
    }
    graphs_.clear();
    memory_ = {};
    try {
      memory_ = Memory(*device_, largest, input, output, batch.workspace_bytes_per_image, scratch);
      return plan;
    } catch (const OutOfMemory& error) {
      if (limit_ > 0 || largest == 1) {
        fail("{}. {} images at a time are too many even so: free memory on the GPU, or use {}",
             error.what(), largest, option_words("device", "cpu"));
      }
      limit_ = largest / 2;
      note_ = fmt::format("{}; going on with {} images at a time instead of {}", error.what(),
                          limit_, largest);
    }
  }
}

void GpuBackend::call(const ops::Slice& slice, const Network& network, Stopwatch* stopwatch) {
  GpuExecutor executor({*device_, kernels_, planner_, cublas_, notes_}, compute_.get(),
                       {.address = memory_.scratch.address(), .bytes = memory_.scratch.bytes()},
                       stopwatch);
  network(executor, slice);
}

/// Launches a slice. The first slice of a size runs operator by operator, which also loads its
/// kernels; the second is captured as a graph, which the following ones reuse.
void GpuBackend::launch(const ops::Network& identity, std::size_t slot, const ops::Slice& slice,
                        const Network& network) {
  if (options_.profile) {
    stopwatch_.start(*compute_);
    call(slice, network, &stopwatch_);
    compute_->synchronize();
    stopwatch_.add_to(times_);
    return;
  }
  if (slice.shapes.differ() && slice.images > kLongSlice) {
    call(slice, network, nullptr);  // such slices rarely have equal numbers of rows
    return;
  }
  bool is_new = false;
  std::unique_ptr<Graph>& graph =
      graphs_.get({identity, slice.images, slice.shapes.rows, slot}, [&] {
        is_new = true;
        return nullptr;
      });
  if (is_new) {
    call(slice, network, nullptr);
    return;
  }
  if (!graph) {
    device_->begin_capture(*compute_);
    try {
      call(slice, network, nullptr);
    } catch (...) {
      try {
        (void)device_->end_capture(*compute_);  // makes the stream usable again
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the first error is rethrown
      }
      throw;
    }
    graph = device_->end_capture(*compute_);
  }
  graph->launch(*compute_);
}

void GpuBackend::copy(std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t parts = divide_up(from.size(), kCopyPart);
  if (parts <= 1) {
    std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  pool_.parallel_for(parts, [&](std::size_t part, int /*worker*/) {
    const std::size_t first = part * kCopyPart;
    std::memcpy(to.data() + first, from.data() + first, std::min(kCopyPart, from.size() - first));
  });
}

void GpuBackend::begin(std::size_t index, const ops::Batch& batch, const ops::BatchRows& rows,
                       std::int64_t first, std::int64_t images, bool is_single,
                       const Network& network) {
  Slot& slot = memory_.slots[index];
  ops::Slice slice{.first = 0,
                   .images = images,
                   .input = reinterpret_cast<const std::uint8_t*>(slot.input.address()),
                   .output = reinterpret_cast<std::byte*>(slot.output.address()),
                   .workspace = reinterpret_cast<std::byte*>(memory_.workspace.address())};
  const auto input = std::as_bytes(rows.input(first, images));
  const auto output = batch.output.subspan(static_cast<std::size_t>(first) * memory_.output_bytes,
                                           static_cast<std::size_t>(images) * memory_.output_bytes);
  const auto staged_output = slot.staged_output.bytes().first(output.size());
  // A single slice runs in one stream, without events between streams.
  Stream& upload = is_single ? *compute_ : *upload_;
  Stream& download = is_single ? *compute_ : *download_;
  if (page_locked_->holds(input)) {
    device_->copy_to_device(slot.input.address(), input, upload);
  } else {
    const auto staged_input = slot.staged_input.bytes().first(input.size());
    copy(input, staged_input);
    device_->copy_to_device(slot.input.address(), staged_input, upload);
  }
  if (!batch.grids.empty()) {
    const auto staged_shapes = slot.staged_shapes.bytes().first(shape_bytes(images));
    auto* const starts = reinterpret_cast<std::int32_t*>(staged_shapes.data());
    rows.shapes(first, images, starts, starts + images + 1);
    device_->copy_to_device(slot.shapes.address(), staged_shapes, upload);
    const auto start_bytes = static_cast<DevicePtr>(images + 1) * sizeof(std::int32_t);
    slice.shapes = {.rows = starts[images],
                    .starts = slot.shapes.address(),
                    .grids = slot.shapes.address() + start_bytes};
  }
  if (!is_single) {
    slot.uploaded->record(upload);
    compute_->wait_for(*slot.uploaded);
  }
  slot.started->record(*compute_);
  launch(batch.network, index, slice, network);
  if (output_stays(batch)) {
    device_->copy_on_device(address_of(output.data()), slot.output.address(), output.size(),
                            *compute_);
  }
  slot.computed->record(*compute_);
  if (!is_single) {
    download.wait_for(*slot.computed);
  }
  if (!output_stays(batch)) {
    device_->copy_to_host(staged_output, slot.output.address(), download);
  }
  slot.done->record(download);
  slot.results = output;
}

void GpuBackend::finish(Slot& slot, const ops::Batch& batch) {
  if (slot.results.empty()) {
    return;
  }
  if (slot.results.size() >= static_cast<std::size_t>(kLongSlice) * memory_.output_bytes) {
    slot.done->synchronize();  // sleeps, so that the core can decode images
  } else {
    while (!slot.done->done()) {  // polls, since waking up would take long compared to the slice
    }
  }
  device_seconds_ += device_->seconds_between(*slot.started, *slot.computed);
  if (!output_stays(batch)) {
    copy(slot.staged_output.bytes().first(slot.results.size()), slot.results);
  }
  if (batch.on_computed) {
    batch.on_computed(static_cast<std::int64_t>(slot.results.size() / memory_.output_bytes));
  }
  slot.results = {};
}

void GpuBackend::run(const ops::Batch& batch, const Network& network) {
  if (batch.images <= 0) {
    return;
  }
  const std::lock_guard lock(run_mutex_);
  const ContextGuard context_guard = device_->hold_context();
  const ops::BatchRows rows(batch);
  const std::vector<std::int64_t> slices = reserve(batch, rows, network);
  try {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      batch.stop.poll();
      finish(memory_.slots[i % 2], batch);
      begin(i % 2, batch, rows, first, slices[i], slices.size() == 1, network);
      first += slices[i];
    }
    finish(memory_.slots[slices.size() % 2], batch);
    finish(memory_.slots[(slices.size() + 1) % 2], batch);
  } catch (...) {
    for (Slot& slot : memory_.slots) {
      slot.results = {};  // the caller's memory may be gone by the next call
    }
    try {
      device_->synchronize();  // ends all copies that read the caller's memory
    } catch (const Error&) {   // NOLINT(bugprone-empty-catch): the first error is rethrown
    }
    throw;
  }
}

}  // namespace

std::vector<std::int64_t> plan_slices(std::int64_t images, std::int64_t largest) {
  std::vector<std::int64_t> slices;
  if (images <= 0) {
    return slices;
  }
  const std::int64_t first = largest / kFirstSlicePart / kImageMultiple * kImageMultiple;
  if (first > 0 && images > largest / 2) {
    slices.push_back(first);
    images -= first;
  }
  const std::int64_t count = divide_up(images, largest);
  std::int64_t each = divide_up(images, count);
  const std::int64_t rounded = divide_up(each, kImageMultiple) * kImageMultiple;
  if (count > 1 && rounded <= largest) {
    each = rounded;
  }
  for (; images > 0; images -= each) {
    slices.push_back(std::min(each, images));
  }
  return slices;
}

void check_forced_kernel() {
  static_cast<void>(forced_attention_level());
}

Support has_kernels_for(const DeviceInfo& device) {
  if (kernel_images().empty()) {
    return {fmt::format(
        "this program was built without the CUDA compiler and has no kernels for {}; use "
        "{}, or build it with nvcc on the PATH (scripts/setup installs it otherwise)",
        device.name, option_words("device", "cpu"))};
  }
  // Checks a kernel that is built for the oldest architecture; later ones can use its PTX.
  if (is_built_for(KernelId::pool_mean, device.arch())) {
    return {};
  }
  return {fmt::format("unsupported compute capability {}.{} of {}; expected 8.0 or later; use {}",
                      device.compute_major, device.compute_minor, device.name,
                      option_words("device", "cpu"))};
}

std::unique_ptr<ops::Backend> make_gpu_backend(std::unique_ptr<Device> device,
                                               const GpuOptions& options) {
  if (const Support support = has_kernels_for(device->info()); !support) {
    fail("{}", support.why);
  }
  const ContextGuard context_guard = device->hold_context();
  return std::make_unique<GpuBackend>(std::move(device), options);
}

}  // namespace fovea::gpu
