// Timing of contenders in turns: device events around graphs of many launches.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/support.hpp"
#include "gpu/device/device.hpp"
#include "lab/system/nvml.hpp"

namespace fovea::lab {

/// Something to be timed. `enqueue` puts one run on input set `set` into the stream.
struct Contender {
  std::string name;
  int sets = 1;  // inputs to rotate over
  std::function<void(int set, gpu::Stream&)> enqueue;
  bool graph = true;  // copies by the driver are slower in graphs: those are put in one by one
};

/// Whether the contender's work can be put into a graph, which a library may refuse.
[[nodiscard]] Support runs_in_graph(gpu::Device& device, const Contender& contender);

struct Timing {
  std::string name;
  double seconds = 0.0;  // median of the samples
  double fastest = 0.0;
  /// Measured without pauses: what is left when the GPU lowers its clocks to keep its power limit.
  double sustained = 0.0;
  double spread = 0.0;  // from the 10th to the 90th percentile, seconds
  int samples = 0;
  int dropped = 0;  // taken while the GPU was slowed down
  int power_capped = 0;
  int sm_mhz = 0;      // median
  double watts = 0.0;  // median

  /// Whether the two cannot be told apart: the spread of either exceeds their difference.
  [[nodiscard]] bool ambiguous_with(const Timing& other) const;
};

/// Times all contenders in the same run, taking turns, so that warmth and clocks favour none:
/// samples with pauses between them, at full clocks, and then each at work for a while.
[[nodiscard]] std::vector<Timing> time_in_turns(gpu::Device& device, const Nvml& nvml,
                                                std::vector<Contender>& contenders);

struct Sample {
  double seconds = 0.0;             // of one run
  std::optional<GpuState> state{};  // while it was taken
};

/// Samples of one contender, each taken when asked for: between them others may have the GPU, so
/// that each begins with its own while at work.
class Sampler {
 public:
  /// The contender must outlive it.
  Sampler(gpu::Device& device, const Nvml& nvml, const Contender& contender);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  [[nodiscard]] Sample next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The value that this share of the others lies below: 0 the least, 1 the greatest. Of one or more.
[[nodiscard]] double percentile(std::vector<double> values, double share);
/// The middle one, or the mean of the two in the middle. Of one or more.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace fovea::lab
