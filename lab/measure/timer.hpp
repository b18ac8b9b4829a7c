// Times contenders alternately: device events around graphs with many launches.
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

/// Work to be timed. `enqueue` enqueues one run on input set `set` into the stream.
struct Contender {
  std::string name;
  int sets = 1;  // number of input sets to rotate over
  std::function<void(int set, gpu::Stream&)> enqueue;
  bool graph = true;  // capture runs in a graph; false for copies, which are slower in graphs
};

/// Returns whether the contender's work can be captured in a graph, which some libraries do not
/// support.
[[nodiscard]] Support runs_in_graph(gpu::Device& device, const Contender& contender);

struct Timing {
  std::string name;
  double seconds = 0.0;  // median of the samples
  double fastest = 0.0;
  /// Seconds without pauses, when the GPU may have to lower its clocks to remain within its power
  /// limit.
  double sustained = 0.0;
  double spread = 0.0;  // from the 10th to the 90th percentile, seconds
  int samples = 0;
  int dropped = 0;  // samples discarded because the GPU was throttled
  int power_capped = 0;
  int sm_mhz = 0;      // median
  double watts = 0.0;  // median

  /// Returns whether the two cannot be distinguished because a spread exceeds their difference.
  [[nodiscard]] bool ambiguous_with(const Timing& other) const;
};

/// Times all contenders alternately in one run, so that temperature and clocks do not favour any of
/// them: first with pauses between the samples, at full clocks, and then each under continuous
/// load.
[[nodiscard]] std::vector<Timing> time_in_turns(gpu::Device& device, const Nvml& nvml,
                                                std::vector<Contender>& contenders);

struct Sample {
  double seconds = 0.0;             // seconds per run
  std::optional<GpuState> state{};  // state of the GPU during the sample
};

/// Takes samples of one contender on request. Since other programs may use the GPU in between, each
/// sample begins with a warm-up.
class Sampler {
 public:
  /// The contender must outlive the sampler.
  Sampler(gpu::Device& device, const Nvml& nvml, const Contender& contender);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  [[nodiscard]] Sample next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the value below which the given share of the other values lies: 0 for the minimum, 1 for
/// the maximum. `values` must not be empty.
[[nodiscard]] double percentile(std::vector<double> values, double share);
/// Returns the middle value, or the mean of the two middle values. `values` must not be empty.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace fovea::lab
