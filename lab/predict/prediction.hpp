// How long a kernel should take on a GPU, by a model of what its SMs and its memory do.
//
// The model takes the instructions that the emulator counted of a case, the bytes that follow from
// the problem and the kernel's tiles, and the GPU's published rates. Each resource is then busy for
// a time; the kernel takes the longest of these, and somewhat more where others come near it, since
// what is not in step waits: the fifth root of the sum of the fifth powers. To that is added the
// launch, and the latency of the first copy and the last store. The clock is as high as the power
// limit lets it be. Nothing is fitted to a kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/cards/card.hpp"
#include "lab/predict/gpu_rates.hpp"
#include "lab/predict/instruction_counts.hpp"
#include "lab/predict/kernel_work.hpp"

namespace fovea::lab {

/// What a kernel keeps busy, and for how long.
struct ResourceTime {
  std::string_view name;  // "matrix units"
  double seconds = 0;     // at `clock`
};

struct Prediction {
  std::string card;
  std::string case_name;
  std::string description;  // of the problem
  std::string kernel;
  std::string_view gpu;
  double seconds = 0;    // of a run of some milliseconds, as `bench` takes the median of
  double clock = 0;      // of the SMs meanwhile, Hz
  double sustained = 0;  // seconds where it runs for long, at the power limit
  double sustained_clock = 0;
  double overhead = 0;                    // of these: seconds of launch, first copy and last store
  std::vector<ResourceTime> resources{};  // the longest first
  bool is_counted_now = false;            // not taken from the table of counts

  /// The resource that bounds it.
  [[nodiscard]] std::string_view bound() const;
};

/// The time of work whose units take these counts.
[[nodiscard]] Prediction predict(const KernelWork& work,
                                 const std::array<OperationCounts, 2>& units,
                                 const GpuRates& rates);

/// Predicts a card's case, in find_case's words, by the kernel of that name or the launcher's
/// choice. The counts come from the table where it has the case, else from the emulator, which
/// takes seconds. Throws fovea::Error when there is no such case or no model of it, or when this
/// program lacks the kernel.
[[nodiscard]] Prediction predict(const Card& card, const std::string& case_name,
                                 const GpuRates& rates, const std::string& kernel = {});

/// The kernel that the launcher chooses for a workload of the card on the GPU. Throws fovea::Error
/// when it takes several, or when this program carries none.
[[nodiscard]] std::string launched_kernel(const Card& card, const Workload& workload,
                                          const GpuRates& rates);

/// A line of JSON: {"card": ..., "seconds": ..., "resources": {...}}.
[[nodiscard]] std::string to_json(const Prediction& prediction);

}  // namespace fovea::lab
