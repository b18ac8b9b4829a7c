// Predicts the time of a kernel on a GPU from a model of the SMs and the memory.
//
// The inputs are the instructions that the emulator counted in a case, the bytes that follow from
// the problem and the kernel's tiles, and the GPU's published rates. They give a time for each
// resource. The kernel takes as long as the slowest resource, and somewhat longer if other
// resources take nearly as long, since they do not overlap perfectly: the model uses the fifth root
// of the sum of the fifth powers. The launch and the latency of the first load and the last store
// are added. The clock is the highest one that the power limit allows. No parameter is fitted to
// individual kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/cards/card.hpp"
#include "lab/predict/gpu_rates.hpp"
#include "lab/predict/instruction_counts.hpp"
#include "lab/predict/kernel_work.hpp"

namespace fovea::lab {

/// A resource of the GPU, and the time for which the kernel occupies it.
struct ResourceTime {
  std::string_view name;  // "matrix units"
  double seconds = 0;     // at the clock Prediction::clock
};

struct Prediction {
  std::string card;
  std::string case_name;
  std::string description;  // description of the problem
  std::string kernel;
  std::string_view gpu;
  double seconds = 0;    // time in short runs, comparable to the median that `bench` measures
  double clock = 0;      // clock of the SMs in short runs, in Hz
  double sustained = 0;  // time under continuous load, at the power limit
  double sustained_clock = 0;
  double overhead = 0;                    // part of `seconds` for launch, first load and last store
  std::vector<ResourceTime> resources{};  // longest first
  bool is_counted_now = false;  // whether the counts come from the emulator instead of the table

  /// Returns the resource that limits the kernel.
  [[nodiscard]] std::string_view bound() const;
};

/// Predicts the time of the work, given the counts per unit.
[[nodiscard]] Prediction predict(const KernelWork& work,
                                 const std::array<OperationCounts, 2>& units,
                                 const GpuRates& rates);

/// Predicts a card's case, given as for find_case(), with the named kernel or the launcher's
/// choice. The counts come from the table if it has the case, else from the emulator, which takes
/// seconds. Throws fovea::Error if there is no such case or no model for it, or if this program
/// lacks the kernel.
[[nodiscard]] Prediction predict(const Card& card, const std::string& case_name,
                                 const GpuRates& rates, const std::string& kernel = {});

/// Returns the kernel that the launcher chooses for a workload of the card on the GPU. Throws
/// fovea::Error if the launcher uses several kernels, or if this program has none for the workload.
[[nodiscard]] std::string launched_kernel(const Card& card, const Workload& workload,
                                          const GpuRates& rates);

/// Returns a line of JSON: {"card": ..., "seconds": ..., "resources": {...}}.
[[nodiscard]] std::string to_json(const Prediction& prediction);

}  // namespace fovea::lab
