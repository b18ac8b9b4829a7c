// Workload: one problem of a kernel with randomly drawn inputs, and its expected result in float64.
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

/// The output of a kernel: a row-major matrix, with a scale per row if `row_scale` is set, or per
/// block of a row (ops/block_scales.hpp) if `block_scales` is set. A stored number is multiplied by
/// `scale` and by the scale of its row or block.
struct OutputSpec {
  DType type = DType::kBF16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double scale = 1.0;
  double offset = 0.0;  // added to stored numbers before they are scaled
  bool row_scale = false;
  bool block_scales = false;
  /// Index of the input that initialises the output, for kernels that add to it; -1 if the output
  /// is initialised with NaN.
  int initial = -1;
  /// The type that results are rounded to, if it is narrower than the stored type.
  std::optional<DType> rounded_to{};

  [[nodiscard]] DType precision() const { return rounded_to.value_or(type); }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(rows * columns) * size_of(type);
  }
};

/// Device addresses of a workload's tensors.
struct Operands {
  std::vector<gpu::DevicePtr> inputs;  // in the order of Workload::inputs
  gpu::DevicePtr output = 0;
  gpu::DevicePtr row_scale = 0;
  gpu::DevicePtr block_scales = 0;
  gpu::DevicePtr scratch = 0;
};

/// A plan of the launcher for a workload; std::monostate if the launcher chooses.
using Plan = std::variant<std::monostate, gpu::GemmPlan, gpu::AttentionPlan>;

/// Returns the launcher's name for the plan; "" if the launcher chooses.
[[nodiscard]] std::string to_string(const Plan& plan);

/// Another library's implementation of the same problem, timed next to ours.
struct Peer {
  std::string name;
  /// Runs once before comparison and timing, for example to choose an algorithm. May be empty.
  std::function<void(const Operands&, gpu::Stream&)> prepare;
  std::function<void(const Operands&, gpu::Stream&)> run;
  /// Whether it computes the workload's full result. A peer that does not (but, for example, the
  /// product without the epilogue) is timed but not compared.
  bool same_result = true;
};

class Workload;

/// A deliberate mistake that the check has to detect: a workload with the same shapes that computes
/// something different. Its output must be rejected when it is compared with the correct workload's
/// expected result.
struct Mutant {
  std::string name;
  std::shared_ptr<const Workload> workload;
  /// Whether the kernel can run the mutant. If not, since no operand can cause the mistake, or if
  /// no kernel supports the mutant, the host computes its output in the same precision.
  bool launchable = true;
};

/// A workload with a NaN in the inputs for row `row` of the output: this row must become NaN, and
/// no other.
struct Poisoned {
  std::shared_ptr<const Workload> workload;
  std::int64_t row = 0;
};

/// A workload with uniform inputs, the sum of whose result is known in advance.
struct Smoke {
  std::shared_ptr<const Workload> workload;
  std::int64_t count = 0;  // number of leading output elements that are summed
  double expected_sum = 0.0;
};

/// A plan for a kernel that is compiled with other tuning parameters than those embedded in the
/// program.
struct TunedPlan {
  Plan plan;
  gpu::KernelId kernel{};
  Support support;                      // says why there is no such plan, if there is none
  gpu::CtaSize cta{};                   // CTA size of its launches
  std::shared_ptr<const void> owner{};  // owns the data that the plan points to
};

class Workload {
 public:
  virtual ~Workload() = default;
  Workload& operator=(const Workload&) = delete;

  /// Describes the problem: "e4m3 [928256,768] x [768,768]^T -> bf16, position".
  [[nodiscard]] virtual std::string describe() const = 0;
  [[nodiscard]] virtual std::span<const Tensor> inputs() const = 0;
  [[nodiscard]] virtual OutputSpec output() const = 0;

  /// Returns whether a kernel runs it on this device.
  [[nodiscard]] virtual Support can_run(const gpu::DeviceInfo& device) const = 0;
  /// Returns the available plans. The first one is empty, which lets the launcher choose.
  [[nodiscard]] virtual std::vector<Plan> plans(const gpu::DeviceInfo& /*device*/) const {
    return {Plan{}};
  }
  /// Returns the plan for a level of its operator. Throws fovea::Error if the level does not exist
  /// or cannot run on this device.
  [[nodiscard]] virtual Plan plan_of_level(const gpu::DeviceInfo& /*device*/,
                                           std::string_view level) const {
    fail("{} has no levels, so level '{}' cannot be used", describe(), level);
  }
  /// Returns the kernel of a plan, or the one that the launcher chooses. Throws fovea::Error if the
  /// workload needs several kernels, which have no tuning parameters.
  [[nodiscard]] virtual gpu::KernelId kernel_of(const gpu::DeviceInfo& /*device*/,
                                                const Plan& /*plan*/) const {
    fail("{} has no tuning parameters", describe());
  }
  /// Returns the plan for a kernel of this operator compiled with other tuning parameters: all
  /// values, in the order of its tuning struct.
  [[nodiscard]] virtual TunedPlan tuned(const gpu::DeviceInfo& /*device*/, gpu::KernelId /*kernel*/,
                                        const ParameterValues& /*values*/) const {
    fail("{} has no tuning parameters", describe());
  }
  /// Returns the launches that compute it, in order.
  [[nodiscard]] virtual std::vector<gpu::Launch> launches(gpu::Device& device,
                                                          const Operands& operands,
                                                          const Plan& plan) const = 0;
  /// Returns the indices of the inputs that the preceding grid may still be writing when the first
  /// of the launches begins, so that it has to wait before reading them. The other inputs are
  /// weights, written long before.
  [[nodiscard]] virtual std::vector<std::size_t> written_just_before() const { return {0}; }
  /// Returns the size of the launches' shared scratch memory.
  [[nodiscard]] virtual std::size_t scratch_bytes() const { return 0; }

  /// Computes a tile of the exact result in float64, row by row.
  virtual void reference(const Tile& tile, std::span<double> values) const = 0;
  /// Computes a tile as a framework would in the same precision: with the same operands,
  /// accumulation in f32, and every stored intermediate tensor rounded to its type.
  virtual void framework(const Tile& tile, std::span<double> values) const = 0;
  [[nodiscard]] virtual std::vector<Mutant> mutants() const = 0;

  /// Returns the same computation in plain torch, or the reason why there is none.
  [[nodiscard]] virtual TorchTask torch_task() const = 0;

  /// Returns whether the problem consists of independent, equal rows. The card's problems then have
  /// the fields `rows` and `width`.
  [[nodiscard]] virtual bool is_of_rows() const { return false; }
  /// Returns the number of arithmetic operations; 0 where elements are only moved or converted.
  [[nodiscard]] virtual double flops() const { return 0.0; }
  /// Returns the size of all tensors: each input read once, and the output written once.
  [[nodiscard]] std::size_t bytes() const;
  /// Returns the operand type of the matrix units, which selects the roofline's ceiling.
  [[nodiscard]] virtual DType operand_type() const { return DType::kBF16; }

  /// Returns the peers available on this machine; appends to `missing` the absent ones, and why.
  [[nodiscard]] virtual std::vector<Peer> peers(gpu::KernelCache& /*kernels*/,
                                                std::vector<std::string>& /*missing*/) const {
    return {};
  }
  [[nodiscard]] virtual Smoke smoke() const { return {}; }
  /// Returns an empty workload if rows are not independent.
  [[nodiscard]] virtual Poisoned poisoned() const { return {}; }

 protected:
  Workload() = default;
  Workload(const Workload&) = default;  // for mutants
};

}  // namespace fovea::lab
