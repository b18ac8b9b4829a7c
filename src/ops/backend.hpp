// Backend: prepares weights and runs the fused operators. It knows nothing of SigLIP.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/dtype.hpp"
#include "core/host_buffer.hpp"
#include "core/stop.hpp"
#include "core/tensor_view.hpp"
#include "fovea/precision.hpp"
#include "fovea/preprocessing.hpp"
#include "ops/call.hpp"
#include "ops/operators.hpp"

namespace fovea::ops {

/// Runs operators in order: on the CPU as one thread of a team that works on the same images, on a
/// GPU in a stream. Every thread of a team makes the same calls; later calls may read an operator's
/// output. Operands are in the memory of the backend's device.
class Executor {
 public:
  Executor() = default;
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Checks the call and runs it.
  void run(const Call& call) {
    std::visit([](const auto& operation) { check(operation); }, call);
    do_run(call);
  }

 private:
  /// Runs a call that has been checked.
  virtual void do_run(const Call& call) = 0;
};

/// Identifies a network: equal networks make the same operator calls for slices of the same size.
struct Network {
  std::int64_t layers = 0;
  std::uint8_t output_kind = 0;  // identifies the operators that follow the layers
  DType output = DType::kF32;

  friend auto operator<=>(const Network&, const Network&) = default;
};

/// The input of Backend::run. Input and output are host memory with the images concatenated; texts
/// are handled as images with another input type.
struct Batch {
  std::int64_t images = 0;
  std::int64_t tokens = 1;  // rows of an image (with `grids`: of the largest), to size the slices
  /// The sizes of the images if they differ: image i has height * width rows in the input.
  std::span<const PatchGrid> grids{};
  std::span<const std::uint8_t> input{};
  std::span<std::byte> output{};
  /// Whether `output` is memory from Backend::allocate_output, so that results stay on the device.
  bool output_stays = false;
  std::size_t workspace_bytes_per_image = 0;
  Network network{};
  /// Makes each image a separate slice, computed by one host thread: the calls to the executor then
  /// depend neither on the other images nor on the number of threads.
  bool one_by_one = false;
  /// When this flag is set, `run` throws Interrupted within a second, and the contents of `output`
  /// are undefined.
  StopFlag stop{};
  /// Unless empty, called after each slice with its number of images, from any thread.
  std::function<void(std::int64_t images)> on_computed{};
};

/// A part of a batch, images [first, first + images), and its memory on the backend's device.
struct Slice {
  std::int64_t first = 0;
  std::int64_t images = 0;
  const std::uint8_t* input = nullptr;
  std::byte* output = nullptr;
  /// Memory for activations: images * workspace_bytes_per_image, aligned to kBufferAlignment, not
  /// initialised.
  std::byte* workspace = nullptr;
  /// Shapes of the images, when the batch has grids.
  ImageShapes shapes{};

  /// Number of rows of all images; each has `tokens` unless the images have different sizes.
  [[nodiscard]] std::int64_t rows(std::int64_t tokens) const {
    return shapes.differ() ? shapes.rows : images * tokens;
  }
};

/// Computes the positions of images in a batch.
class BatchRows {
 public:
  explicit BatchRows(const Batch& batch);

  /// Number of rows of all images before `image`.
  [[nodiscard]] std::int64_t before(std::int64_t image) const {
    return starts_.empty() ? image * tokens_ : starts_[static_cast<std::size_t>(image)];
  }
  /// Returns the part of the batch's input for images [first, first + images).
  [[nodiscard]] std::span<const std::uint8_t> input(std::int64_t first, std::int64_t images) const;
  /// Maximum number of input bytes of an image.
  [[nodiscard]] std::size_t max_input_bytes() const;

  /// Writes ImageShapes::starts (images + 1 numbers) and ImageShapes::grids (2 * images numbers)
  /// for images [first, first + images). The batch must have grids.
  void shapes(std::int64_t first, std::int64_t images, std::int32_t* starts,
              std::int32_t* grids) const;

 private:
  /// The amount of input before `image`: in rows, or in images if all have the same size.
  [[nodiscard]] std::size_t units(std::int64_t image) const {
    return static_cast<std::size_t>(starts_.empty() ? image : before(image));
  }

  const Batch& batch_;
  std::int64_t tokens_;
  std::vector<std::int64_t> starts_;  // empty when all images have the same number of rows
};

/// Calls and time of the operators at one place of the network, summed over threads.
struct OperatorTime {
  std::uint64_t calls = 0;
  double seconds = 0;
};
class Profile {
 public:
  [[nodiscard]] OperatorTime& operator[](Place place) {
    return times_.at(static_cast<std::size_t>(place));
  }
  [[nodiscard]] const OperatorTime& operator[](Place place) const {
    return times_.at(static_cast<std::size_t>(place));
  }
  Profile& operator+=(const Profile& other) {
    for (std::size_t i = 0; i < kPlaces; ++i) {
      times_[i].calls += other.times_[i].calls;
      times_[i].seconds += other.times_[i].seconds;
    }
    return *this;
  }

 private:
  std::array<OperatorTime, kPlaces> times_{};
};

/// Types of the tensors between a network's operators.
struct TensorTypes {
  DType stream = DType::kF32;    // residual stream
  DType normed = DType::kF32;    // output of a norm, input of a linear layer
  DType qkv = DType::kF32;       // input of attention
  DType attended = DType::kF32;  // output of attention
  DType inner = DType::kF32;     // between the two layers of an MLP
  bool row_scales = false;       // whether `normed` has a scale for each row

  /// Returns the types for a layer that is not computed in 8 bits: `qkv` replaces all 8-bit types.
  [[nodiscard]] TensorTypes widened() const {
    const auto wide = [this](DType type) { return size_of(type) == 1 ? qkv : type; };
    return {.stream = stream,
            .normed = wide(normed),
            .qkv = wide(qkv),
            .attended = wide(attended),
            .inner = wide(inner)};
  }
};

/// Memory for results on a backend's device, which this object keeps alive. Thread-safe.
class OutputMemory {
 public:
  /// The value of device() for host memory.
  static constexpr int kHost = -1;

  OutputMemory() = default;
  virtual ~OutputMemory() = default;
  OutputMemory(const OutputMemory&) = delete;
  OutputMemory& operator=(const OutputMemory&) = delete;

  /// The memory; the host may access it only when the device is kHost.
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  /// The index of the GPU, or kHost.
  [[nodiscard]] virtual int device() const = 0;
  /// Copies the first host.size() bytes to the host. Throws fovea::Error when the device fails.
  virtual void copy_to(std::span<std::byte> host) const = 0;
};

class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// A description for users, such as "cpu (avx512_bf16), bf16, 8 threads".
  [[nodiscard]] virtual std::string description() const = 0;
  /// The recommended number of images per call of `run`.
  [[nodiscard]] virtual std::int64_t preferred_batch() const = 0;
  /// Returns a note for users about the runs so far, such as a shortage of memory; each note is
  /// returned once.
  [[nodiscard]] virtual std::string take_note() { return {}; }
  /// The precision in use, never kAuto.
  [[nodiscard]] virtual Precision precision() const = 0;
  [[nodiscard]] virtual int threads() const = 0;
  [[nodiscard]] virtual TensorTypes types() const = 0;

  /// Whether this backend supports the problem, such as a linear layer with a built-in norm.
  [[nodiscard]] virtual Support can_run(const BackendProblem& problem) const = 0;

  /// Copies weights into the backend's format; the host memory may be freed afterwards.
  /// Thread-safe. Throws fovea::Error when the lengths of the spans do not match the shapes.
  [[nodiscard]] PreparedPtr prepare(const Weights& weights) {
    std::visit([](const auto& layer) { check_weights(layer); }, weights);
    return do_prepare(weights);
  }

  /// Allocates host memory for a Batch's input, page-locked for GPUs, from which `run` copies to
  /// the device directly. It must be freed before the backend. Thread-safe.
  [[nodiscard]] virtual HostBuffer allocate_input(std::size_t bytes) { return HostBuffer(bytes); }

  /// Allocates memory for output that stays on the device (host memory for backends on the host).
  /// It may outlive the backend. Throws fovea::Error when memory is exhausted. Thread-safe.
  [[nodiscard]] virtual std::shared_ptr<OutputMemory> allocate_output(std::size_t bytes);

  /// Runs independent host tasks, such as preparing weights, on the backend's host threads.
  virtual void for_each(std::size_t count, const std::function<void(std::size_t)>& task) = 0;

  /// Splits the batch into slices and calls `network` for each, on executors that work in parallel.
  /// Rethrows the first exception. Concurrent calls are serialised.
  virtual void run(const Batch& batch,
                   const std::function<void(Executor&, const Slice&)>& network) = 0;

  /// Time per place since the last call of reset_profile; all zero for a backend that does not
  /// measure.
  [[nodiscard]] virtual Profile profile() const { return {}; }
  virtual void reset_profile() {}
  /// Seconds that the device has computed in `run` since reset_profile, without the copies to and
  /// from it; 0 for backends that compute on the host.
  [[nodiscard]] virtual double device_seconds() const { return 0; }

 private:
  /// Prepares weights that have been checked.
  [[nodiscard]] virtual PreparedPtr do_prepare(const Weights& weights) = 0;
};

}  // namespace fovea::ops
