// CpuBackend: distributes batches over its threads.
#include "cpu/cpu_backend.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/precision_names.hpp"
#include "core/thread_pool.hpp"
#include "core/wording.hpp"
#include "cpu/cpu_executor.hpp"
#include "cpu/isa.hpp"
#include "cpu/schedule.hpp"
#include "ops/operand_types.hpp"

namespace fovea::cpu {
namespace {

Precision choose_precision(Precision requested) {
  if (requested == Precision::kAuto) {
    return has_bf16() ? Precision::kBf16 : Precision::kFp32;
  }
  const PrecisionInfo& row = info_of(requested);
  if (!row.on_cpus) {
    std::vector<std::string> others = precision_names(&PrecisionInfo::on_cpus);
    others.emplace_back(to_string(Precision::kAuto));
    fail("{} is computed on NVIDIA{} only; use {} on the CPU", row.name,
         row.gpus.empty() ? " GPUs" : fmt::format("'s {}", row.gpus), listed(others, "or"));
  }
  const DType operand = ops::operand_types(requested).normed;
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
  return requested;
}

/// Returns the types of the tensors: inputs of 8-bit products have 8 bits; the others are bf16
/// where the CPU has bf16 products, otherwise fp32.
CpuTypes tensor_types(Precision precision) {
  const ops::OperandTypes& operands = ops::operand_types(precision);
  const DType wide = size_of(operands.normed) > 1 ? operands.normed
                     : has_bf16()                 ? DType::kBF16
                                                  : DType::kF32;
  return {{.stream = DType::kF32,
           .normed = operands.normed,
           .qkv = wide,
           .attended = wide,
           .inner = operands.inner,
           .row_scales = operands.row_scales()}};
}

class CpuBackend : public ops::Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : precision_(choose_precision(options.precision)),
        types_(tensor_types(precision_)),
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
    const std::lock_guard run_lock(run_mutex_);
    return std::exchange(note_, {});
  }
  [[nodiscard]] Precision precision() const override { return precision_; }
  [[nodiscard]] int threads() const override { return pool_.threads(); }
  [[nodiscard]] ops::TensorTypes types() const override { return types_; }

  [[nodiscard]] Support can_run(const ops::BackendProblem& problem) const override {
    return std::visit([this](const auto& alternative) { return ops::can_run(alternative, types_); },
                      problem);
  }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    pool_.parallel_for(count, [&](std::size_t index, int /*worker*/) { task(index); });
  }

  void run(const ops::Batch& batch,
           const std::function<void(ops::Executor&, const ops::Slice&)>& network) override;

  [[nodiscard]] std::int64_t preferred_batch() const override {
    // Several images per thread, so that threads wait only briefly at the end of a batch.
    return std::max<std::int64_t>(32, 8 * std::int64_t{threads()});
  }

  [[nodiscard]] ops::Profile profile() const override;
  void reset_profile() override;

 private:
  [[nodiscard]] ops::PreparedPtr do_prepare(const ops::Weights& weights) override {
    return std::visit([this](const auto& layer) { return ops::prepare(layer, types_); }, weights);
  }

  Precision precision_;
  CpuTypes types_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Team>> teams_;  // reused while batches have the same schedule
  mutable std::mutex run_mutex_;
  ThreadPool pool_;
  std::string note_;
};

/// Hands out the slices of a batch to the teams, and stores the first exception of any thread.
class SliceQueue {
 public:
  SliceQueue(const ops::Batch& batch, const Schedule& schedule)
      : batch_(batch), rows_(batch), schedule_(schedule), remaining_(batch.images) {}

  /// Returns the next slice, without its workspace; a slice of 0 images when none is left.
  /// `shapes` receives the slice's image shapes, to which the slice refers.
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
  const std::lock_guard run_lock(run_mutex_);
  const Schedule schedule = batch.one_by_one ? Schedule{.teams = threads()}
                                             : plan_schedule(batch.images, batch.tokens, threads());
  if (teams_.size() != static_cast<std::size_t>(schedule.teams)) {
    teams_.clear();
    for (int executor = 0; executor < schedule.teams; ++executor) {
      teams_.push_back(std::make_unique<Team>(schedule.team));
    }
  }
  // Memory is allocated before any slice is taken, because a failure after that would lose the
  // slice.
  const std::size_t bytes = static_cast<std::size_t>(next_slice(schedule, batch.images)) *
                            batch.workspace_bytes_per_image;
  for (const auto& team : teams_) {
    team->reset();
    ensure_size(team->workspace, bytes);
    team->shapes.reserve(batch.grids.empty() ? 0 : 3 * batch.grids.size() + 1);
  }
  SliceQueue queue(batch, schedule);
  const auto run_slices = [&](Team& team, int rank, Worker& worker) {
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
      run_slices(team, rank, *workers_[static_cast<std::size_t>(worker)]);
    } catch (...) {
      queue.stop(std::current_exception());
      team.barrier().abort();
    }
  });
  if (queue.failed()) {
    teams_.clear();  // aborted barriers cannot be reused
    queue.rethrow();
  }
}

ops::Profile CpuBackend::profile() const {
  const std::lock_guard run_lock(run_mutex_);
  ops::Profile sum;
  for (const auto& worker : workers_) {
    sum += worker->times;
  }
  return sum;
}

void CpuBackend::reset_profile() {
  const std::lock_guard run_lock(run_mutex_);
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
