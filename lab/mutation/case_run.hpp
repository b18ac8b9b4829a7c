// A card's case under one plan on the emulator: what it launches, which lines that reaches, and
// what becomes of it when something was changed.
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

/// What one run gave. Throws nothing of what kernels do wrong.
struct RunResult {
  std::string finding{};   // the emulator's words; empty: none
  std::string wrong{};     // why the output is not right; empty: it is
  std::uint64_t hash = 0;  // of the output's bytes, when there was no finding

  [[nodiscard]] bool is_clean() const { return finding.empty() && wrong.empty(); }
};

/// What a run of the kernels as they are has shown.
struct Reach {
  std::map<std::string, std::set<int>, std::less<>> lines{};  // of each kernel, that ran
  std::uint64_t steps = 0;                                    // operations of warps
  /// Whether each of those that were encoded, in order, can have another swizzle.
  std::vector<bool> tensor_maps{};
};

/// A case with its inputs, and what should come out, which is computed when somebody asks first.
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

/// Thread-safe.
class CaseRun {
 public:
  CaseRun(std::shared_ptr<const CaseInputs> inputs, lab::Plan plan, int arch);

  /// "gemm_out_bf16 m384 2x128"
  [[nodiscard]] std::string name() const;
  [[nodiscard]] double flops() const { return inputs_->workload().flops(); }
  /// Kernels that it launches, each once.
  [[nodiscard]] const std::vector<gpu::KernelId>& kernels() const { return kernels_; }
  /// Differs from that of another run of the case that launches something else.
  [[nodiscard]] const std::string& launches() const { return launches_; }

  /// Runs it as it is when somebody asks first. Throws fovea::Error when that is not clean.
  [[nodiscard]] const Reach& reach() const;
  /// Runs it on a schedule of that seed, with what `options` changes, and then behind grids that it
  /// may overlap with if that is asked for. Throws fovea::Error when the emulator does not know the
  /// text, or refuses a launch.
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

/// The cases of these cards that are quick to emulate and the problems that are there to be
/// emulated, or the case of that name, under every plan that launches something of its own, the
/// ones with the least arithmetic first.
[[nodiscard]] std::vector<std::unique_ptr<CaseRun>> case_runs(
    const std::vector<const lab::Card*>& cards, const std::string& only_case, int arch,
    std::uint64_t seed);

}  // namespace fovea::mutation
