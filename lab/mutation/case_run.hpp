// Runs a card's case with one plan on the emulator, with or without a mutation of the PTX or of a
// tensor map, and determines which lines it executes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gpu/emulated/emu_device.hpp"
#include "lab/cards/card.hpp"
#include "lab/cards/workload.hpp"
#include "lab/check/judge.hpp"

namespace fovea::mutation {

/// Result of a run. Errors of the kernels are reported here rather than thrown.
struct RunResult {
  std::string finding{};   // the emulator's message; empty if there is none
  std::string wrong{};     // why the output is wrong; empty if it is correct
  std::uint64_t hash = 0;  // hash of the output's bytes, if there was no finding

  [[nodiscard]] bool is_clean() const { return finding.empty() && wrong.empty(); }
};

/// The lines, operations and tensor maps in a run of the unmodified kernels.
struct Reach {
  std::map<std::string, std::set<int>, std::less<>> lines{};  // executed lines by kernel
  std::uint64_t steps = 0;                                    // number of operations that warps
                                                              // executed
  /// Flags of the tensor maps, in the order of encoding: whether the swizzle can be changed.
  std::vector<bool> tensor_maps{};
};

/// A case with its inputs and its expected values. The latter are computed on first use.
/// Thread-safe.
class CaseInputs {
 public:
  CaseInputs(const lab::Card& card, const lab::Case& card_case, std::uint64_t seed);

  [[nodiscard]] const lab::Card& card() const { return card_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const lab::Workload& workload() const { return *workload_; }
  [[nodiscard]] std::vector<lab::TileValues> expected() const;

 private:
  const lab::Card& card_;
  std::string name_;
  std::unique_ptr<lab::Workload> workload_;
  std::uint64_t seed_;
  mutable std::once_flag once_;
  mutable std::vector<lab::TileValues> expected_;
};

/// A case with one plan. Thread-safe.
class CaseRun {
 public:
  CaseRun(std::shared_ptr<const CaseInputs> inputs, lab::Plan plan, int arch);

  /// Returns the name: "gemm_out_bf16 m384 2x128".
  [[nodiscard]] std::string name() const;
  [[nodiscard]] double flops() const { return inputs_->workload().flops(); }
  /// Returns the kernels that the case launches, without duplicates.
  [[nodiscard]] const std::vector<gpu::KernelId>& kernels() const { return kernels_; }
  /// Returns a key of the launches; runs of the case with different launches have different keys.
  [[nodiscard]] const std::string& launches() const { return launches_; }

  /// Runs the unmodified case on the first call. Throws fovea::Error if that run has findings or a
  /// wrong output.
  [[nodiscard]] const Reach& reach() const;
  /// Runs the case with the schedule and the changes in `options`, and then, if `overlapping`,
  /// behind grids that it may overlap with. Throws fovea::Error if the emulator does not support
  /// the PTX or rejects a launch.
  [[nodiscard]] RunResult run(gpu::EmuOptions options, bool overlapping) const;

 private:
  std::shared_ptr<const CaseInputs> inputs_;
  lab::Plan plan_;
  int arch_;
  std::vector<gpu::KernelId> kernels_;
  std::string launches_;
  mutable std::once_flag once_;
  mutable Reach reach_;
};

/// Returns runs of those cases of the cards that are quick to emulate and of the cards' problems
/// for the emulator, or only of the case with the given name. There is one run for each plan with
/// distinct launches. The runs are sorted by the amount of arithmetic.
[[nodiscard]] std::vector<std::unique_ptr<CaseRun>> case_runs(
    const std::vector<const lab::Card*>& cards, const std::string& only_case, int arch,
    std::uint64_t seed);

}  // namespace fovea::mutation
