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

/// Where operators run, one after the other: on the CPU one thread of a team that works on the
/// same images, on a GPU a stream. Every thread of a team makes the same calls; an operator's
/// output may be read by the calls after it. Operand memory belongs to the backend's device.
class Executor {
 public:
  Executor() = default;
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Checks the call and runs it.
  void run(const Call& call) {
    std::visit([](const auto& given) { check(given); }, call);
    do_run(call);
  }

 private:
  /// The call is checked.
  virtual void do_run(const Call& call) = 0;
};

/// Tells the networks apart that a backend runs: those that are equal make the same calls of
/// operators for slices of the same size.
struct Network {
  std::int64_t layers = 0;
  std::uint8_t ending = 0;  // what its caller does behind the layers
  DType output = DType::kF32;

  friend auto operator<=>(const Network&, const Network&) = default;
};

/// What Backend::run is to cut into slices. Input and output are host memory, whole images one
/// after the other; a text is an image of which only the input's type differs.
struct Batch {
  std::int64_t images = 0;
  std::int64_t tokens = 1;  // rows of an image, to size the slices; of the largest with `grids`
  /// Images of different sizes, without gaps in the input: how many rows each has, as a height
  /// times a width.
  std::span<const PatchGrid> grids{};
  std::span<const std::uint8_t> input{};
  std::span<std::byte> output{};
  /// `output` is memory of Backend::allocate_output, where it stays on the backend's device.
  bool output_stays = false;
  std::size_t workspace_bytes_per_image = 0;
  Network network{};
  /// Each image is a slice of its own, which one host thread walks through the network: what its
  /// executor is given then depends neither on the other images nor on the number of threads.
  bool one_by_one = false;
  /// When it is set, `run` throws Interrupted within a second, and nothing is promised of `output`.
  StopFlag stop{};
  /// When it is set, called after each slice with the number of its images, from any thread.
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
  /// Shapes of its images, when the batch has grids.
  ImageShapes shapes{};

  /// Rows of all its images, of which each has `tokens` unless they differ.
  [[nodiscard]] std::int64_t rows(std::int64_t tokens) const {
    return shapes.differ() ? shapes.rows : images * tokens;
  }
};

/// Where the images of a batch begin.
class BatchRows {
 public:
  explicit BatchRows(const Batch& batch);

  /// Rows of all images before `image`.
  [[nodiscard]] std::int64_t before(std::int64_t image) const {
    return starts_.empty() ? image * tokens_ : starts_[static_cast<std::size_t>(image)];
  }
  /// What images [first, first + images) have of the batch's input.
  [[nodiscard]] std::span<const std::uint8_t> input(std::int64_t first, std::int64_t images) const;
  /// Bytes of the input that the largest image may have.
  [[nodiscard]] std::size_t most_input_bytes() const;

  /// Writes what ImageShapes::starts and ::grids are to be of images [first, first + images), which
  /// must have sizes of their own: images + 1 and 2 * images numbers.
  void shapes(std::int64_t first, std::int64_t images, std::int32_t* starts,
              std::int32_t* grids) const;

 private:
  /// The input before `image`, in rows, or in images where all are alike.
  [[nodiscard]] std::size_t units(std::int64_t image) const {
    return static_cast<std::size_t>(starts_.empty() ? image : before(image));
  }

  const Batch& batch_;
  std::int64_t tokens_;
  std::vector<std::int64_t> starts_;  // empty when all images have as many rows
};

/// Time spent in the places of the network, summed over threads.
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
  DType normed = DType::kF32;    // what a norm gives to a linear layer
  DType qkv = DType::kF32;       // what attention reads
  DType attended = DType::kF32;  // what attention gives
  DType inner = DType::kF32;     // between the two layers of an MLP
  bool row_scales = false;       // of `normed`

  /// The types of a layer that is not computed in 8 bits: those of 8 bits become attention's.
  [[nodiscard]] TensorTypes widened() const {
    const auto wide = [this](DType type) { return size_of(type) == 1 ? qkv : type; };
    return {.stream = stream,
            .normed = wide(normed),
            .qkv = wide(qkv),
            .attended = wide(attended),
            .inner = wide(inner)};
  }
};

/// Memory for results, on a backend's device, which it keeps alive. Thread-safe.
class OutputMemory {
 public:
  /// The device of memory of the host.
  static constexpr int kHost = -1;

  OutputMemory() = default;
  virtual ~OutputMemory() = default;
  OutputMemory(const OutputMemory&) = delete;
  OutputMemory& operator=(const OutputMemory&) = delete;

  /// Where it is; readable by the host only when the device is kHost.
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  /// The number of the GPU, or kHost.
  [[nodiscard]] virtual int device() const = 0;
  /// Copies its first bytes to the host. Throws fovea::Error when the device fails.
  virtual void copy_to(std::span<std::byte> host) const = 0;
};

class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// Words for people: "cpu (avx512_bf16), bf16, 8 threads".
  [[nodiscard]] virtual std::string description() const = 0;
  /// The number of images that a caller with many had best pass at once.
  [[nodiscard]] virtual std::int64_t preferred_batch() const = 0;
  /// What a user should know of runs so far, such as memory that ran short; each is told once.
  [[nodiscard]] virtual std::string take_note() { return {}; }
  /// Never kAuto.
  [[nodiscard]] virtual Precision precision() const = 0;
  [[nodiscard]] virtual int threads() const = 0;
  [[nodiscard]] virtual TensorTypes types() const = 0;

  /// Whether this backend runs the problem: whether a layer can have its norm within, say.
  [[nodiscard]] virtual Support can_run(const BackendProblem& problem) const = 0;

  /// Copies weights into the backend's own form; the host memory may go afterwards. Thread-safe.
  /// Throws fovea::Error when their spans do not fit the shapes.
  [[nodiscard]] PreparedPtr prepare(const Weights& weights) {
    std::visit([](const auto& given) { check_weights(given); }, weights);
    return do_prepare(weights);
  }

  /// Host memory for a Batch's input: where the device copies from such memory of its own accord
  /// (page-locked, on GPUs), `run` takes it as it is. Freed before the backend. Thread-safe.
  [[nodiscard]] virtual HostBuffer allocate_input(std::size_t bytes) { return HostBuffer(bytes); }

  /// Memory of the device for the output of batches that stays there, which is the host's unless
  /// the backend has its own. It may outlive the backend. Throws fovea::Error when there is not
  /// enough. Thread-safe.
  [[nodiscard]] virtual std::shared_ptr<OutputMemory> allocate_output(std::size_t bytes);

  /// Runs independent host tasks, such as preparing weights, on the backend's host threads.
  virtual void for_each(std::size_t count, const std::function<void(std::size_t)>& task) = 0;

  /// Cuts the batch into slices and calls `network` for each, on executors that work side by side,
  /// until all are done. Rethrows the first exception. Calls take turns.
  virtual void run(const Batch& batch,
                   const std::function<void(Executor&, const Slice&)>& network) = 0;

  /// Time by place since the last call of reset_profile; none of a backend that measures nothing.
  [[nodiscard]] virtual Profile profile() const { return {}; }
  virtual void reset_profile() {}
  /// Seconds that a device of its own has computed for `run` since reset_profile, without the
  /// copies to and from it; 0 for backends that compute on the host.
  [[nodiscard]] virtual double device_seconds() const { return 0; }

 private:
  /// The weights are checked.
  [[nodiscard]] virtual PreparedPtr do_prepare(const Weights& weights) = 0;
};

}  // namespace fovea::ops
