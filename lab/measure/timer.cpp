// Measures contenders: captures graphs, warms up, takes samples in rounds and summarises them.
#include "lab/measure/timer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <thread>

#include "core/error.hpp"

namespace fovea::lab {
namespace {

constexpr double kSampleSeconds = 4e-3;    // much longer than a launch and an event's resolution
constexpr double kWarmSeconds = 0.08;      // the time in which the clocks rise from idle
constexpr double kStepWarmSeconds = 0.01;  // before a sample that follows other work
constexpr int kStepRepeats = 3;            // launches of the graph per sample
constexpr int kRounds = 15;
constexpr double kSustainedSeconds = 0.15;
/// Pause between samples. Under continuous load, a GPU would lower its clocks to remain within its
/// power limit.
constexpr auto kPause = std::chrono::milliseconds(12);
/// Pause between steps of 12 ms of warm-up and 12 ms of measurement. For a GEMM that makes an H200
/// lower its clocks, the standard deviation within pairs of samples is 0.2% with this pause, and 5%
/// with 12 ms.
constexpr auto kStepPause = std::chrono::milliseconds(40);
constexpr int kMaxRuns = 400;  // maximal number of runs per graph

}  // namespace

/// A contender that is ready to be timed.
struct Entry {
  std::function<void()> enqueue;  // enqueues all runs of a sample
  int runs = 1;                   // number of runs per sample
  std::vector<double> seconds;
  std::vector<double> mhz;
  std::vector<double> watts;
  int dropped = 0;
  int power_capped = 0;
};

class Timer {
 public:
  Timer(gpu::Device& device, const Nvml& nvml)
      : device_(device),
        nvml_(nvml),
        stream_(device.make_stream()),
        start_(device.make_event()),
        end_(device.make_event()) {}

  Entry prepare(const Contender& contender) {
    const auto run = [this, &contender](int count) {
      for (int i = 0; i < count; ++i) {
        contender.enqueue(i % contender.sets, *stream_);
      }
    };
    run(2);
    const double estimate = timed([&] { run(2); }) / 2;
    Entry entry;
    const int min_runs = static_cast<int>(std::ceil(kSampleSeconds / std::max(estimate, 1e-7)));
    entry.runs = std::clamp(std::max(min_runs, contender.sets), 1, kMaxRuns);
    if (contender.graph) {
      device_.begin_capture(*stream_);
      run(entry.runs);
      const std::shared_ptr<gpu::Graph> graph = device_.end_capture(*stream_);
      entry.enqueue = [this, graph] { graph->launch(*stream_); };
    } else {
      entry.enqueue = [run, runs = entry.runs] { run(runs); };
    }
    return entry;
  }

  void warm(std::span<Entry> entries, double seconds) {
    const auto begin = std::chrono::steady_clock::now();
    const auto passed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    do {
      for (Entry& entry : entries) {
        entry.enqueue();
      }
      stream_->synchronize();
    } while (passed() < seconds);
  }

  void sample(Entry& entry) {
    const Sample sample = take(entry, 1, kPause);
    if (sample.state.has_value()) {
      if (sample.state->slowed) {
        ++entry.dropped;
        return;
      }
      entry.power_capped += sample.state->power_capped ? 1 : 0;
      entry.mhz.push_back(sample.state->sm_mhz);
      entry.watts.push_back(sample.state->watts);
    }
    entry.seconds.push_back(sample.seconds);
  }

  /// Pauses, then measures `repeats` launches of the graph.
  Sample take(Entry& entry, int repeats, std::chrono::milliseconds pause) {
    std::this_thread::sleep_for(pause);
    start_->record(*stream_);
    for (int i = 0; i < repeats; ++i) {
      entry.enqueue();
    }
    end_->record(*stream_);
    Sample sample;
    sample.state = nvml_.read();  // read while the GPU is busy
    end_->synchronize();
    sample.seconds = device_.seconds_between(*start_, *end_) / (entry.runs * repeats);
    return sample;
  }

  /// Returns the time per run in the second half of a period of continuous work.
  double sustain(Entry& entry) {
    const double sample = percentile(entry.seconds, 0.5) * entry.runs;
    const int half = std::max(1, static_cast<int>(kSustainedSeconds / 2 / sample));
    for (int i = 0; i < half; ++i) {
      entry.enqueue();
    }
    return timed([&] {
             for (int i = 0; i < half; ++i) {
               entry.enqueue();
             }
           }) /
           (half * entry.runs);
  }

 private:
  double timed(const std::function<void()>& work) {
    start_->record(*stream_);
    work();
    end_->record(*stream_);
    end_->synchronize();
    return device_.seconds_between(*start_, *end_);
  }

  gpu::Device& device_;
  const Nvml& nvml_;
  std::unique_ptr<gpu::Stream> stream_;
  std::unique_ptr<gpu::Event> start_;
  std::unique_ptr<gpu::Event> end_;
};

namespace {

Timing summarise(const std::string& name, const Entry& entry) {
  Timing timing;
  timing.name = name;
  timing.samples = static_cast<int>(entry.seconds.size());
  timing.dropped = entry.dropped;
  timing.power_capped = entry.power_capped;
  if (entry.seconds.empty()) {
    fail("{}: the GPU was throttled during every sample; let it cool down and try again", name);
  }
  timing.seconds = percentile(entry.seconds, 0.5);
  timing.fastest = percentile(entry.seconds, 0.0);
  timing.spread = percentile(entry.seconds, 0.9) - percentile(entry.seconds, 0.1);
  if (!entry.mhz.empty()) {
    timing.sm_mhz = static_cast<int>(percentile(entry.mhz, 0.5));
    timing.watts = percentile(entry.watts, 0.5);
  }
  return timing;
}

}  // namespace

struct Sampler::State {
  Timer timer;
  Entry entry;
};

Sampler::Sampler(gpu::Device& device, const Nvml& nvml, const Contender& contender)
    : state_(std::make_unique<State>(State{Timer(device, nvml), {}})) {
  state_->entry = state_->timer.prepare(contender);
  state_->timer.warm(std::span(&state_->entry, 1), kWarmSeconds);
}

Sampler::~Sampler() = default;

Sample Sampler::next() {
  state_->timer.warm(std::span(&state_->entry, 1), kStepWarmSeconds);
  return state_->timer.take(state_->entry, kStepRepeats, kStepPause);
}

Support runs_in_graph(gpu::Device& device, const Contender& contender) {
  const std::unique_ptr<gpu::Stream> stream = device.make_stream();
  Support support;
  device.begin_capture(*stream);
  try {
    contender.enqueue(0, *stream);
  } catch (const Error& error) {
    support.why = error.what();
  }
  try {
    (void)device.end_capture(*stream);  // ends the capture even if it was invalidated
  } catch (const Error& error) {
    support.why = support ? error.what() : support.why;
  }
  return support;
}

bool Timing::ambiguous_with(const Timing& other) const {
  return !(std::abs(seconds - other.seconds) > std::max(spread, other.spread));
}

double percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(
      std::lround(share * static_cast<double>(values.size() - 1)))];
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return std::midpoint(values[(values.size() - 1) / 2], values[values.size() / 2]);
}

std::vector<Timing> time_in_turns(gpu::Device& device, const Nvml& nvml,
                                  std::vector<Contender>& contenders) {
  Timer timer(device, nvml);
  std::vector<Entry> entries;
  entries.reserve(contenders.size());
  for (const Contender& contender : contenders) {
    entries.push_back(timer.prepare(contender));
  }
  timer.warm(entries, kWarmSeconds);
  for (int round = 0; round < kRounds; ++round) {
    for (Entry& entry : entries) {
      timer.sample(entry);
    }
  }
  std::vector<Timing> timings;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    timings.push_back(summarise(contenders[i].name, entries[i]));
    timings.back().sustained = timer.sustain(entries[i]);
  }
  return timings;
}

}  // namespace fovea::lab
