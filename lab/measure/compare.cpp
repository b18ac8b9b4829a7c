// Collects pairs of samples from two child programs, and computes the verdict.
#include "lab/measure/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <random>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/json.hpp"
#include "lab/measure/timer.hpp"
#include "lab/system/json_fields.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Probability that the interval does not contain the true median.
constexpr double kErrorProbability = 0.001;

/// Returns the number of the `count` sorted values that lie outside of the median's confidence
/// interval at each end; -1 if there are too few values for an interval. Each value is above or
/// below the median with equal probability.
int excluded_count(int count) {
  // Computes the probability that exactly `k` values are below the median, with logarithms since
  // 2^-1100 underflows.
  const auto chance = [count](int k) {
    return std::exp(std::lgamma(count + 1.0) - std::lgamma(k + 1.0) - std::lgamma(count - k + 1.0) -
                    count * std::numbers::ln2);
  };
  int k = 0;
  for (double sum = chance(0); sum <= kErrorProbability / 2; sum += chance(k)) {
    ++k;
  }
  return k - 1;
}

/// A program's answer to "sample".
struct Answer {
  double seconds = 0.0;
  double sm_mhz = 0.0;
  double watts = 0.0;
  bool slowed = false;
};

class Side {
 public:
  Side(const StepProgram& program, const StepOptions& options)
      : program_(program), options_(options) {}

  /// Starts the program without waiting for it, so that both programs prepare in parallel.
  void start() {
    child_.reset();  // frees memory for the new child
    child_ = std::make_unique<Child>(program_.command);
  }

  void await_ready() {
    const Json line = read(options_.ready_seconds, "say that it is ready");
    const auto ready = line.find("ready");
    if (ready == line.end() || !ready->is_object()) {
      fail_with("does not follow the step protocol: its first line is not {\"ready\": {...}}");
    }
    ready_ = *ready;
  }

  [[nodiscard]] Answer sample() {
    if (!child_->write_line("sample", options_.sample_seconds)) {
      fail_with(child_->why_silent());
    }
    const Json line = read(options_.sample_seconds, "give a sample");
    Answer answer{.seconds = number_in(line, "seconds"),
                  .sm_mhz = number_in(line, "sm_mhz"),
                  .watts = number_in(line, "watts"),
                  .slowed = line.value("slowed", Json(false)) == Json(true)};
    if (!(answer.seconds > 0) || !std::isfinite(answer.seconds)) {
      fail_with("returned a sample without a valid time: " +
                line.dump().substr(0, kMaxMessageChars));
    }
    return answer;
  }

  void keep(const Answer& answer) {
    seconds_.push_back(answer.seconds);
    mhz_.push_back(answer.sm_mhz);
    watts_.push_back(answer.watts);
  }

  [[nodiscard]] std::string ready_as(const char* key) const {
    return ready_.value(key, Json()).dump();
  }

  [[nodiscard]] StepSide result() const {
    return {.ready = ready_.dump(),
            .seconds = percentile(seconds_, 0.5),
            .spread = percentile(seconds_, 0.9) - percentile(seconds_, 0.1),
            .sm_mhz = static_cast<int>(percentile(mhz_, 0.5)),
            .watts = percentile(watts_, 0.5)};
  }

 private:
  static constexpr std::size_t kMaxMessageChars = 200;

  [[noreturn]] void fail_with(const std::string& what) const { fail("{} {}", program_.what, what); }

  Json read(double max_seconds, const char* expectation) {
    const std::optional<std::string> text = child_->read_line(max_seconds);
    if (!text.has_value()) {
      fail_with(child_->why_silent() + ", and did not " + expectation);
    }
    Json line = io::try_parse_ordered_json(*text);
    if (!line.is_object()) {
      fail_with("does not follow the step protocol: got " + text->substr(0, kMaxMessageChars));
    }
    return line;
  }

  const StepProgram& program_;
  const StepOptions& options_;
  std::unique_ptr<Child> child_;
  Json ready_;
  std::vector<double> seconds_;
  std::vector<double> mhz_;
  std::vector<double> watts_;
};

void require_alike(const Side& a, const Side& b) {
  for (const auto& [key, what] :
       {std::pair("card", "cards"), {"case", "cases"}, {"problem", "problems"}, {"bus", "GPUs"}}) {
    if (a.ready_as(key) != b.ready_as(key)) {
      fail("A and B cannot be compared because they run different {}: {} and {}", what,
           a.ready_as(key), b.ready_as(key));
    }
  }
}

}  // namespace

std::string_view to_string(Speed speed) {
  constexpr std::array<std::string_view, 4> kNames = {"SAME", "FASTER", "SLOWER", "AMBIGUOUS"};
  return kNames.at(static_cast<std::size_t>(speed));
}

Speed judge_interval(double low, double high, double threshold) {
  const double limit = 1 + threshold;
  if (low > limit) {
    return Speed::kSlower;
  }
  if (high < 1 / limit) {
    return Speed::kFaster;
  }
  return low >= 1 / limit && high <= limit ? Speed::kSame : Speed::kAmbiguous;
}

SpeedVerdict judge_pairs(std::span<const SamplePair> pairs, double threshold) {
  std::vector<double> logs;
  for (const SamplePair& pair : pairs) {
    logs.push_back(std::log(pair.b / pair.a));
  }
  SpeedVerdict verdict{.low = 0.0, .high = std::numeric_limits<double>::infinity()};
  if (logs.empty() || !std::ranges::all_of(logs, [](double log) { return std::isfinite(log); })) {
    return verdict;
  }
  std::ranges::sort(logs);
  verdict.ratio = std::exp(median(logs));
  if (const int beyond = excluded_count(static_cast<int>(logs.size())); beyond >= 0) {
    verdict.low = std::exp(logs[static_cast<std::size_t>(beyond)]);
    verdict.high = std::exp(logs[logs.size() - 1 - static_cast<std::size_t>(beyond)]);
  }
  verdict.speed = judge_interval(verdict.low, verdict.high, threshold);
  return verdict;
}

JudgedPairs judge_until_clear(const PairLimits& pair_limits,
                              const std::function<std::optional<SamplePair>()>& next) {
  JudgedPairs judged;
  std::vector<SamplePair> pairs;
  for (int until = pair_limits.first; judged.verdict.speed == Speed::kAmbiguous;
       until = std::min(until + pair_limits.more, pair_limits.limit)) {
    if (judged.pairs >= pair_limits.limit) {
      break;
    }
    while (static_cast<int>(pairs.size()) < until) {
      if (const std::optional<SamplePair> pair = next(); pair.has_value()) {
        pairs.push_back(*pair);
      } else if (++judged.dropped >= pair_limits.limit) {
        fail("the GPU was throttled during {} pairs of samples; let it cool down and try again",
             judged.dropped);
      }
    }
    judged.pairs = static_cast<int>(pairs.size());
    judged.verdict = judge_pairs(pairs, pair_limits.threshold);
  }
  return judged;
}

StepComparison compare_steps(const StepProgram& a, const StepProgram& b,
                             const StepOptions& options) {
  Side first(a, options);
  Side second(b, options);
  std::mt19937_64 draw(options.seed);
  bool a_leads = false;
  StepComparison result;
  int turn = 0;
  result.judged = judge_until_clear(options.pair_limits, [&]() -> std::optional<SamplePair> {
    if (turn % options.pairs_per_start == 0) {
      first.start();
      second.start();
      first.await_ready();
      second.await_ready();
      require_alike(first, second);
    }
    // The two pairs of each couple have opposite orders, so that drift favours neither side.
    a_leads = turn++ % 2 == 0 ? (draw() & 1) == 0 : !a_leads;
    Side& leading = a_leads ? first : second;
    Side& following = a_leads ? second : first;
    const Answer answer = leading.sample();
    const Answer other = following.sample();
    if (answer.slowed || other.slowed) {
      return std::nullopt;
    }
    leading.keep(answer);
    following.keep(other);
    return a_leads ? SamplePair{answer.seconds, other.seconds}
                   : SamplePair{other.seconds, answer.seconds};
  });
  result.a = first.result();
  result.b = second.result();
  return result;
}

}  // namespace fovea::lab
