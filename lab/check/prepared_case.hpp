// A case of a card, ready to be launched: at a level, with a plan, from other sources, or with
// other tuning parameters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"
#include "lab/cards/workload.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/check/judge.hpp"
#include "lab/check/placement.hpp"
#include "lab/system/compiler.hpp"

namespace fovea::lab {

struct CaseSpec {
  const Card* card = nullptr;
  std::string case_name{};               // empty: the card's timed case
  std::string level{};                   // empty: the launcher's choice
  std::string plan{};                    // as printed by `bench --plans`; only without a level
  std::string sources{};                 // folder; empty: the kernels embedded in the program
  std::map<std::string, int> changes{};  // changed tuning parameters of the kernel
  std::uint64_t seed = 1;
};

class PreparedCase {
 public:
  /// Draws the inputs and compiles kernels as needed. Throws fovea::Error if the case, the level,
  /// the plan or a tuning parameter is unknown, or if the case cannot run on this device.
  PreparedCase(gpu::Device& device, const CaseSpec& spec);
  PreparedCase(const PreparedCase&) = delete;  // kernels_ points to the machine code
  PreparedCase& operator=(const PreparedCase&) = delete;

  [[nodiscard]] const Workload& workload() const { return *workload_; }
  [[nodiscard]] const std::string& case_name() const { return case_name_; }
  [[nodiscard]] const Plan& plan() const { return tuned_.plan; }
  /// Returns the names of the launched kernels, in order, without duplicates.
  [[nodiscard]] const std::vector<std::string>& kernels() const { return names_; }

  void run(const Operands& operands, gpu::Stream& stream);
  /// Runs the case behind grids that are still running (lab/check/check_cards.hpp).
  void run_overlapping(const Operands& operands, gpu::Stream& stream);
  /// Returns the result of its smoke run, if it has one.
  [[nodiscard]] std::optional<SmokeFigure> run_smoke(gpu::Stream& stream);
  /// Runs the case once and compares its output with the tiles.
  [[nodiscard]] Verdict judge(Placement& placement, std::span<TileValues> tiles,
                              const Tolerance& tolerance, gpu::Stream& stream);

 private:
  std::string case_name_;
  std::unique_ptr<Workload> workload_;
  TunedPlan tuned_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<CompiledKernel>> compiled_;
  std::unique_ptr<gpu::KernelCache> kernels_;
};

/// Draws a case's inputs and launches it `times` times, without checks, for profilers and
/// compute-sanitizer.
void run_case(gpu::Device& device, const CaseSpec& spec, int times);

}  // namespace fovea::lab
