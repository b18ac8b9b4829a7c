// A case of a card ready to be launched as asked: at a level, by a plan, from other sources, with
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
  std::string plan{};                    // as `bench --plans` names it; not beside a level
  std::string sources{};                 // a folder; empty: the kernels that the program carries
  std::map<std::string, int> changes{};  // of the kernel's tuning parameters
  std::uint64_t seed = 1;
};

class PreparedCase {
 public:
  /// Draws the inputs and compiles what has to be. Throws fovea::Error when the case, the level,
  /// the plan or a tuning parameter is unknown, or when it cannot run there.
  PreparedCase(gpu::Device& device, const CaseSpec& spec);
  PreparedCase(const PreparedCase&) = delete;  // the cache points to the machine code
  PreparedCase& operator=(const PreparedCase&) = delete;

  [[nodiscard]] const Workload& workload() const { return *workload_; }
  [[nodiscard]] const std::string& case_name() const { return case_name_; }
  [[nodiscard]] const Plan& plan() const { return tuned_.plan; }
  /// Names of the kernels that are launched, in order, each once.
  [[nodiscard]] const std::vector<std::string>& kernels() const { return names_; }

  void run(const Operands& operands, gpu::Stream& stream);
  /// Runs it behind grids that have not ended (lab/check/check_cards.hpp).
  void run_overlapping(const Operands& operands, gpu::Stream& stream);
  /// What its smoke run gives, if it has one.
  [[nodiscard]] std::optional<SmokeFigure> run_smoke(gpu::Stream& stream);
  /// Runs it once and compares what it wrote with the tiles.
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

/// Launches a case on drawn inputs, `times` times, and nothing else: what profilers and
/// compute-sanitizer look at.
void run_case(gpu::Device& device, const CaseSpec& spec, int times);

}  // namespace fovea::lab
