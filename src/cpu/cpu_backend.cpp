// CpuBackend: prepares weights, and leads its threads through batches.
#include "cpu/cpu_backend.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/precision_names.hpp"
#include "core/thread_pool.hpp"
#include "core/wording.hpp"
#include "cpu/cpu_executor.hpp"
#include "cpu/isa.hpp"
#include "cpu/row_kernels.hpp"
#include "cpu/schedule.hpp"
#include "ops/operand_types.hpp"
#include "ops/rounding.hpp"

namespace fovea::cpu {
namespace {

Precision choose_precision(Precision asked) {
  if (asked == Precision::kAuto) {
    return has_bf16() ? Precision::kBf16 : Precision::kFp32;
  }
  const PrecisionInfo& row = info_of(asked);
  if (!row.on_cpus) {
    std::vector<std::string> others = precision_names(&PrecisionInfo::on_cpus);
    others.emplace_back(to_string(Precision::kAuto));
    fail("{} is computed on NVIDIA{} only; use {} on the CPU", row.name,
         row.gpus.empty() ? " GPUs" : fmt::format("'s {}", row.gpus), listed(others, "or"));
  }
  const DType operand = ops::operand_types(asked).normed;
  if (operand == DType::kBF16 && !has_bf16()) {
    fail(
        "{} needs a CPU with AMX or AVX512-BF16 instructions, but this one has {}. "
        "Use fp32 or auto",
        row.name, isa_name());
  }
  if (operand == DType::kI8 && !has_int8()) {
    fail(
        "{} needs a CPU with AVX2 instructions, because it would not be faster than fp32 on "
        "this one. Use fp32 or auto",
        row.name);
  }
  return asked;
}

/// Types of the tensors: what is not an input of an 8-bit product is in bf16 where the CPU
/// multiplies that, and in fp32 elsewhere.
ops::TensorTypes types_of(Precision precision) {
  const ops::OperandTypes& operands = ops::operand_types(precision);
  const DType wide = size_of(operands.normed) > 1 ? operands.normed
                     : has_bf16()                 ? DType::kBF16
                                                  : DType::kF32;
  return {.stream = DType::kF32,
          .normed = operands.normed,
          .qkv = wide,
          .attended = wide,
          .inner = operands.inner,
          .row_scales = operands.row_scales()};
}

class CpuBackend : public ops::Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : precision_(choose_precision(options.precision)),
        types_(types_of(precision_)),
        pool_(options.threads > 0 ? options.threads : available_threads()),
        note_(options.note) {
    for (int worker = 0; worker < pool_.threads(); ++worker) {
      workers_.push_back(std::make_unique<Worker>());
    }
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format("cpu ({}), {}, {} threads", isa_name(), to_string(precision_), threads());
  }
  [[nodiscard]] std::string take_note() override {
    const std::lock_guard turn(turn_);
    return std::exchange(note_, {});
  }
  [[nodiscard]] Precision precision() const override { return precision_; }
  [[nodiscard]] int threads() const override { return pool_.threads(); }
  [[nodiscard]] ops::TensorTypes types() const override { return types_; }

  [[nodiscard]] Support can_run(const ops::PatchEmbedProblem& problem) const override {
    return valid(problem);
  }
  [[nodiscard]] Support can_run(const ops::LinearProblem& problem) const override;
  [[nodiscard]] Support can_run(const ops::PoolProblem& problem) const override;
  [[nodiscard]] Support can_run(const ops::ProjectProblem& problem) const override {
    return valid(problem);
  }

  [[nodiscard]] ops::PreparedPtr prepare(const ops::PatchEmbedWeights& weights) override;
  [[nodiscard]] ops::PreparedPtr prepare(const ops::LayerNormWeights& weights) override;
  [[nodiscard]] ops::PreparedPtr prepare(const ops::LinearWeights& weights) override;
  [[nodiscard]] ops::PreparedPtr prepare(const ops::PoolWeights& weights) override;
  [[nodiscard]] ops::PreparedPtr prepare(const ops::ProjectWeights& weights) override;

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    pool_.parallel_for(count, [&](std::size_t index, int /*worker*/) { task(index); });
  }

  void run(const ops::Batch& batch,
           const std::function<void(ops::Executor&, const ops::Slice&)>& network) override;

  [[nodiscard]] std::int64_t preferred_batch() const override {
    // So many for each thread that none waits long for the last one.
    return std::max<std::int64_t>(32, 8 * std::int64_t{threads()});
  }
  [[nodiscard]] HostBuffer allocate_input(std::size_t bytes) override { return HostBuffer(bytes); }
  [[nodiscard]] std::shared_ptr<ops::OutputMemory> allocate_output(std::size_t bytes) override {
    return ops::host_output(bytes);
  }

  [[nodiscard]] ops::Profile profile() const override;
  void reset_profile() override;
  [[nodiscard]] double device_seconds() const override { return 0; }

 private:
  Precision precision_;
  ops::TensorTypes types_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Team>> teams_;  // kept for batches cut alike
  mutable std::mutex turn_;
  ThreadPool pool_;
  std::string note_;
};

Support CpuBackend::can_run(const ops::LinearProblem& problem) const {
  if (Support support = valid(problem); !support) {
    return support;
  }
  if (problem.norm) {
    return {"norms are operators of their own here"};
  }
  if (problem.epilogue == ops::Epilogue::kResidual && problem.output != DType::kF32) {
    return {"residuals are added in f32 only"};
  }
  if (problem.input != types_.normed && problem.input != types_.qkv) {
    return {fmt::format("this backend was made for {} operands, not {}", to_string(types_.normed),
                        to_string(problem.input))};
  }
  if (problem.row_scales && problem.input != DType::kI8) {
    return {"only rows of i8 have scales"};
  }
  if (problem.output != DType::kF32 && problem.output != types_.qkv &&
      problem.output != types_.inner) {
    return {fmt::format("this backend was made for {} outputs, not {}", to_string(types_.qkv),
                        to_string(problem.output))};
  }
  return {};
}

Support CpuBackend::can_run(const ops::PoolProblem& problem) const {
  if (problem.norm) {
    return {"the tokens' layer norm is an operator of its own"};
  }
  return problem.input == DType::kF32 ? valid(problem) : Support{"the input must be f32"};
}

ops::PreparedPtr CpuBackend::prepare(const ops::PatchEmbedWeights& weights) {
  check_weights(weights);
  const DType pixels = types_.normed == DType::kI8 ? DType::kU8 : types_.normed;
  const ops::FoldedPatchEmbed folded = fold_pixels(weights, pixels, weights.projection.in);
  auto parameters = std::make_unique<PatchEmbedParameters>();
  parameters->position = AlignedBuffer<float>(folded.position.size());
  std::ranges::copy(folded.position, parameters->position.data());
  parameters->prefix = AlignedBuffer<float>(weights.prefix.size());
  std::ranges::copy(weights.prefix, parameters->prefix.data());
  parameters->projection = std::make_unique<PackedWeights>(folded.projection(), pixels);
  return parameters;
}

ops::PreparedPtr CpuBackend::prepare(const ops::LayerNormWeights& weights) {
  check_weights(weights);
  return std::make_unique<NormParameters>(weights);
}

ops::PreparedPtr CpuBackend::prepare(const ops::LinearWeights& weights) {
  check_weights(weights);
  return std::make_unique<PackedWeights>(
      weights, weights.input.type == DType::kI8 ? DType::kI8 : types_.qkv);
}

ops::PreparedPtr CpuBackend::prepare(const ops::PoolWeights& weights) {
  check_weights(weights);
  const auto pack = [](const ops::LinearWeights& layer) {
    return std::make_unique<PackedWeights>(layer, DType::kF32);
  };
  auto parameters = std::make_unique<PoolParameters>();
  parameters->keys = AlignedBuffer<float>(weights.key.size());
  std::ranges::copy(weights.key, parameters->keys.data());
  const std::int64_t head_dim = weights.value.out / weights.heads;
  for (std::int64_t head = 0; head < weights.heads; ++head) {
    const auto first = static_cast<std::size_t>(head * head_dim);
    const auto rows = static_cast<std::size_t>(head_dim);
    const auto in = static_cast<std::size_t>(weights.value.in);
    parameters->values.push_back(
        pack({.in = weights.value.in,
              .out = head_dim,
              .weight = weights.value.weight.subspan(first * in, rows * in),
              .bias = weights.value.bias.subspan(first, rows)}));
  }
  parameters->out = pack(weights.out);
  parameters->norm = std::make_unique<NormParameters>(weights.norm);
  parameters->fc1 = pack(weights.fc1);
  parameters->fc2 = pack(weights.fc2);
  return parameters;
}

ops::PreparedPtr CpuBackend::prepare(const ops::ProjectWeights& weights) {
  check_weights(weights);
  auto parameters = std::make_unique<ProjectParameters>();
  parameters->norm = std::make_unique<NormParameters>(weights.norm);
  if (!weights.linear.weight.empty()) {
    parameters->linear = std::make_unique<PackedWeights>(weights.linear, DType::kF32);
  }
  return parameters;
}

/// Hands out a batch's slices; holds the first exception of any thread.
class SliceQueue {
 public:
  SliceQueue(const ops::Batch& batch, const Schedule& schedule)
      : batch_(batch), rows_(batch), schedule_(schedule), remaining_(batch.images) {}

  /// The next slice, without workspace; 0 images when there are no more. `shapes` is for where its
  /// images lie.
  ops::Slice take(std::vector<std::int32_t>& shapes) {
    const std::lock_guard lock(mutex_);
    ops::Slice slice;
    if (remaining_ == 0) {
      return slice;
    }
    const auto images = static_cast<std::size_t>(batch_.images);
    slice.first = batch_.images - remaining_;
    slice.images = next_slice(schedule_, remaining_);
    const auto first = static_cast<std::size_t>(slice.first);
    slice.input = rows_.input(slice.first, slice.images).data();
    if (!batch_.grids.empty()) {
      const auto count = static_cast<std::size_t>(slice.images);
      shapes.resize(count + 1 + 2 * count);
      std::int32_t* const grids = shapes.data() + count + 1;
      rows_.shapes(slice.first, slice.images, shapes.data(), grids);
      slice.shapes = {
          .rows = shapes[count], .starts = address_of(shapes.data()), .grids = address_of(grids)};
    }
    slice.output = batch_.output.data() + first * (batch_.output.size() / images);
    remaining_ -= slice.images;
    return slice;
  }

  void stop(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    remaining_ = 0;
    if (!error_) {
      error_ = std::move(error);
    }
  }

  void rethrow() const {
    if (error_) {
      std::rethrow_exception(error_);
    }
  }
  [[nodiscard]] bool failed() const { return error_ != nullptr; }

 private:
  const ops::Batch& batch_;
  ops::BatchRows rows_;
  const Schedule& schedule_;
  std::int64_t remaining_;
  std::exception_ptr error_;
  std::mutex mutex_;
};

void CpuBackend::run(const ops::Batch& batch,
                     const std::function<void(ops::Executor&, const ops::Slice&)>& network) {
  if (batch.images <= 0) {
    return;
  }
  const std::lock_guard turn(turn_);
  const Schedule schedule = batch.one_by_one ? Schedule{.teams = threads()}
                                             : plan_schedule(batch.images, batch.tokens, threads());
  if (teams_.size() != static_cast<std::size_t>(schedule.teams)) {
    teams_.clear();
    for (int executor = 0; executor < schedule.teams; ++executor) {
      teams_.push_back(std::make_unique<Team>(schedule.team));
    }
  }
  // All memory is taken before the first slice is: a slice that was taken is also walked.
  const std::size_t bytes = static_cast<std::size_t>(next_slice(schedule, batch.images)) *
                            batch.workspace_bytes_per_image;
  for (const auto& team : teams_) {
    team->reset();
    grown(team->workspace, bytes);
    team->shapes.reserve(batch.grids.empty() ? 0 : 3 * batch.grids.size() + 1);
  }
  SliceQueue queue(batch, schedule);
  const auto walk = [&](Team& team, int rank, Worker& worker) {
    CpuExecutor executor(team, rank, worker, batch.stop);
    for (;;) {
      if (rank == 0) {
        team.slice = queue.take(team.shapes);
        team.slice.workspace = team.workspace.data();
      }
      team.barrier().arrive_and_wait();
      const ops::Slice slice = team.slice;
      if (slice.images == 0) {
        return;
      }
      network(executor, slice);
      team.barrier().arrive_and_wait();
      if (rank == 0 && batch.on_computed) {
        batch.on_computed(slice.images);
      }
    }
  };
  pool_.parallel_for(workers_.size(), [&](std::size_t index, int worker) {
    Team& team = *teams_[index / static_cast<std::size_t>(schedule.team)];
    const auto rank = static_cast<int>(index % static_cast<std::size_t>(schedule.team));
    try {
      walk(team, rank, *workers_[static_cast<std::size_t>(worker)]);
    } catch (...) {
      queue.stop(std::current_exception());
      team.barrier().abort();
    }
  });
  if (queue.failed()) {
    teams_.clear();  // their barriers are spent
    queue.rethrow();
  }
}

ops::Profile CpuBackend::profile() const {
  const std::lock_guard turn(turn_);
  ops::Profile sum;
  for (const auto& worker : workers_) {
    sum += worker->times;
  }
  return sum;
}

void CpuBackend::reset_profile() {
  const std::lock_guard turn(turn_);
  for (const auto& worker : workers_) {
    worker->times = {};
  }
}

}  // namespace

std::unique_ptr<ops::Backend> make_cpu_backend(const CpuOptions& options) {
  limit_isa_from_environment();
  return std::make_unique<CpuBackend>(options);
}

}  // namespace fovea::cpu
