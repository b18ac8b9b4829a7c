// Workload: one problem of a kernel with its inputs drawn; what comes out, in float64.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "core/support.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/attention.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/launch.hpp"
#include "lab/cards/tensor.hpp"
#include "lab/cards/torch_task.hpp"
#include "lab/system/kernel_sources.hpp"
#include "ops/reference/judge.hpp"

namespace fovea::lab {

using ops::reference::Tile;

/// What a kernel writes: a row-major matrix, and a scale for each row when `row_scale` says so, or
/// for each block of a row (ops/block_scales.hpp) when `block_scales` does. Element (r, c) stands
/// for stored * scale * row_scale[r], or that of its block.
struct OutputSpec {
  DType type = DType::kBF16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double scale = 1.0;
  double offset = 0.0;  // a stored number stands for (number + offset) * scale
  bool row_scale = false;
  bool block_scales = false;
  /// Index of the input whose content the output holds before the launch, for kernels that add to
  /// it; others find NaN there.
  int initial = -1;
  /// The type that results are rounded to when it is narrower than the one they are stored in.
  std::optional<DType> rounded_to{};

  [[nodiscard]] DType precision() const { return rounded_to.value_or(type); }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(rows * columns) * size_of(type);
  }
};

/// Where the tensors of a workload lie on the device.
struct Operands {
  std::vector<gpu::DevicePtr> inputs;  // in the order of Workload::inputs
  gpu::DevicePtr output = 0;
  gpu::DevicePtr row_scale = 0;
  gpu::DevicePtr block_scales = 0;
  gpu::DevicePtr scratch = 0;
};

/// The launcher's plan that runs a workload; empty: the launcher's choice.
using Plan = std::variant<std::monostate, gpu::GemmPlan, gpu::AttentionPlan>;

/// The launcher's name of the plan; the empty one has none.
[[nodiscard]] std::string to_string(const Plan& plan);

/// Another program's way to compute the same, timed beside ours.
struct Peer {
  std::string name;
  /// Done once, before anything is compared or timed: choosing an algorithm, say. May be empty.
  std::function<void(const Operands&, gpu::Stream&)> prepare;
  std::function<void(const Operands&, gpu::Stream&)> run;
  /// Whether it leaves in the output what the workload asks for; when not (the bare product without
  /// its epilogue, say) it is timed and not compared.
  bool same_result = true;
};

class Workload;

/// A mistake that the gate has to notice: a workload of the same shapes that computes something
/// else. Its output, compared with what the right workload expects, must be rejected.
struct Mutant {
  std::string name;
  std::shared_ptr<const Workload> workload;
  /// Run on the device, by the very kernel; otherwise (mistakes that no operand can cause) the
  /// host's computation in the same precision stands in, as it does where no kernel can run it.
  bool launchable = true;
};

/// The same with a NaN in what `row` of the output is made from: that row must be NaN, and no
/// other.
struct Poisoned {
  std::shared_ptr<const Workload> workload;
  std::int64_t row = 0;
};

/// A run whose result is known without computing: all inputs alike.
struct Smoke {
  std::shared_ptr<const Workload> workload;
  std::int64_t count = 0;  // the first elements of the output
  double expected_sum = 0.0;
};

/// A plan whose kernel has other tuning parameters than those of the program.
struct TunedPlan {
  Plan plan;
  gpu::KernelId kernel{};
  Support support;                      // why there is no such plan
  gpu::CtaSize cta{};                   // of its launches
  std::shared_ptr<const void> owner{};  // of what the plan points to
};

class Workload {
 public:
  virtual ~Workload() = default;
  Workload& operator=(const Workload&) = delete;

  /// The problem in words: "e4m3 [928256,768] x [768,768]^T -> bf16, position".
  [[nodiscard]] virtual std::string describe() const = 0;
  [[nodiscard]] virtual std::span<const Tensor> inputs() const = 0;
  [[nodiscard]] virtual OutputSpec output() const = 0;

  /// Whether a kernel runs it there.
  [[nodiscard]] virtual Support can_run(const gpu::DeviceInfo& device) const = 0;
  /// The plans there are for it; the first, which is empty, is the launcher's choice.
  [[nodiscard]] virtual std::vector<Plan> plans(const gpu::DeviceInfo& /*device*/) const {
    return {Plan{}};
  }
  /// The plan of a level of its operator. Throws fovea::Error when it has none of that level, or
  /// when it cannot run there.
  [[nodiscard]] virtual Plan plan_of_level(const gpu::DeviceInfo& /*device*/,
                                           std::string_view level) const {
    fail("{} has no levels to take '{}' from", describe(), level);
  }
  /// The kernel of a plan, or of the launcher's choice. Throws fovea::Error when the workload takes
  /// several kernels, which have no tuning parameters.
  [[nodiscard]] virtual gpu::KernelId kernel_of(const gpu::DeviceInfo& /*device*/,
                                                const Plan& /*plan*/) const {
    fail("{} has no tuning parameters", describe());
  }
  /// The plan of a kernel of this operator that is compiled with other values of its tuning
  /// parameters, all of them, in the order of its tuning struct.
  [[nodiscard]] virtual TunedPlan tuned(const gpu::DeviceInfo& /*device*/, gpu::KernelId /*kernel*/,
                                        const ParameterValues& /*values*/) const {
    fail("{} has no tuning parameters", describe());
  }
  /// What computes it, in order.
  [[nodiscard]] virtual std::vector<gpu::Launch> launches(gpu::Device& device,
                                                          const Operands& operands,
                                                          const Plan& plan) const = 0;
  /// Inputs that the grid before may be writing still when the first of these grids begins, so that
  /// it has to wait before it reads them. Others are weights, which are there for long.
  [[nodiscard]] virtual std::vector<std::size_t> written_just_before() const { return {0}; }
  /// Device memory that the launches pass things through, of no interest afterwards.
  [[nodiscard]] virtual std::size_t scratch_bytes() const { return 0; }

  /// The exact result of a part of the output, row by row, computed in float64.
  virtual void reference(const Tile& tile, std::span<double> values) const = 0;
  /// What a framework gives that computes in the same precision: these operands, f32 accumulation,
  /// every intermediate tensor that it would store rounded to its type.
  virtual void framework(const Tile& tile, std::span<double> values) const = 0;
  [[nodiscard]] virtual std::vector<Mutant> mutants() const = 0;

  /// The same in plain torch, or why not.
  [[nodiscard]] virtual TorchTask torch_task() const = 0;

  /// Whether its work is of rows that are all alike, which its card's problems call `rows` and
  /// `width`.
  [[nodiscard]] virtual bool is_of_rows() const { return false; }
  /// Arithmetic operations; none where elements are only moved, or converted.
  [[nodiscard]] virtual double flops() const { return 0.0; }
  /// Bytes of all tensors: each input is read once, and the output written.
  [[nodiscard]] std::size_t bytes() const;
  /// Whether its arithmetic is in matrix units of one-byte or two-byte operands: which ceiling.
  [[nodiscard]] virtual DType operand_type() const { return DType::kBF16; }

  /// Peers that this machine has; `missing` says which it has not, and why.
  [[nodiscard]] virtual std::vector<Peer> peers(gpu::KernelCache& /*kernels*/,
                                                std::vector<std::string>& /*missing*/) const {
    return {};
  }
  [[nodiscard]] virtual Smoke smoke() const { return {}; }
  /// Has no workload where rows do not stand alone.
  [[nodiscard]] virtual Poisoned poisoned() const { return {}; }

 protected:
  Workload() = default;
  Workload(const Workload&) = default;  // mutants are copies
};

}  // namespace fovea::lab
