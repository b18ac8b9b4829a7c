// Matches the figures in two files, and finds those whose difference exceeds the noise.
#include "lab/measure/compare_files.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/json.hpp"
#include "lab/system/json_fields.hpp"
#include "lab/system/largest_first.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Width of the 99.9% confidence interval of a median of about 15 normally distributed samples,
/// relative to the spread between the 10th and the 90th percentile.
constexpr double kIntervalInSpreads = 0.42;
/// Relative noise of the single launch in a profile.
constexpr double kLaunchNoise = 0.02;
constexpr double kLaunchThreshold = 0.05;

/// Returns whether a figure varies between launches of the same kernel.
bool is_outcome(std::string_view name) {
  constexpr std::array<std::string_view, 15> kOutcomes = {
      "seconds",   "matrix_units", "fma",         "issue",      "dram",
      "l2",        "l2_hit",       "l1",          "l1_hit",     "write_path",
      "occupancy", "waves",        "shared_busy", "idle_warps", "eligible_warps"};
  constexpr std::array<std::string_view, 4> kBegin = {
      "stall_", "dram_", "epilogue_", "bank_conflict"};  // bank_conflict includes waiting for TMA
  return std::ranges::find(kOutcomes, name) != kOutcomes.end() ||
         std::ranges::any_of(kBegin, [&](auto begin) { return name.starts_with(begin); }) ||
         name.ends_with("_per_second") || name.ends_with("_wait");
}

/// Returns the magnitude of a figure's change: the absolute logarithm of its ratio, or 0 if the
/// change is within the noise.
double change_magnitude(std::string_view name, double a, double b) {
  constexpr double kNoise = 0.05;       // relative noise of a figure
  constexpr double kShareNoise = 0.02;  // noise of a share: two percentage points
  const double larger = std::max(std::abs(a), std::abs(b));
  const bool is_time = name.ends_with("seconds");
  // A change from zero is measured relative to a small floor.
  const double floor = is_time ? 1e-9 : larger > 1 ? 1.0 : kShareNoise;
  const double noise = std::max(kNoise * larger, is_time || larger > 1 ? 0.0 : kShareNoise);
  return std::abs(b - a) > noise ? std::abs(std::log((std::abs(b) + floor) / (std::abs(a) + floor)))
                                 : 0.0;
}

/// Returns whether the figure is a share of all warp stalls.
bool is_wait(std::string_view name) {
  return name.starts_with("stall_") || (name.ends_with("_wait") && name != "epilogue_wait");
}

/// Returns a sort key for changes: first the work, by ratio, then stalls, then their effects on the
/// units. Stalls are ordered by the difference of their shares, since a decrease from 4% to 1%, for
/// example, has a large ratio but explains little.
std::tuple<bool, bool, double> rank(bool work, std::string_view name, double a, double b) {
  const bool wait = !work && is_wait(name);
  return {work, wait, wait ? std::abs(b - a) : change_magnitude(name, a, b)};
}

std::string document_kind(const Json& json) {
  if (json.is_object() && json.contains("figures") && json["figures"].is_object()) {
    return "a profile";
  }
  if (json.is_object() && json.contains("kernels") && json["kernels"].is_object() &&
      json["kernels"].contains("figures") && json["kernels"]["figures"].is_array()) {
    return "a bench report";
  }
  return "";
}

/// Returns the profiles in a file, which has one object for each kernel that the case launches.
std::vector<Json> read_profiles(const Json& json) {
  const Json& all = json.is_object() && json.contains("profiles") ? json["profiles"] : json;
  std::vector<Json> profiles;
  if (all.is_array()) {
    profiles.assign(all.begin(), all.end());
  } else {
    profiles.push_back(all);
  }
  const bool is_complete = std::ranges::all_of(
      profiles, [](const Json& profile) { return document_kind(profile) == "a profile"; });
  return is_complete ? profiles : std::vector<Json>();
}

/// Throws fovea::Error for implausible numbers, which would lead to infinities.
void check_numbers(const Json& json, const std::string& key) {
  if (json.is_number()) {
    constexpr double kMax = 1e30;
    const auto value = json.get<double>();
    const double size = std::abs(value);
    if (!(size <= kMax) || (size > 0 && size < 1 / kMax)) {
      fail("\"{}\" is {:g}, which is not a plausible measurement", key, value);
    }
  } else if (json.is_structured()) {
    for (const auto& [inner, value] : json.items()) {
      check_numbers(value, inner);
    }
  }
}

Json parsed(const std::string& name, const std::string& text) {
  Json json = io::try_parse_ordered_json(text);
  if (json.is_discarded()) {
    fail("{} is not JSON", name);
  }
  try {
    check_numbers(json, name);
  } catch (const Error& error) {
    fail("{}: {}", name, error.what());
  }
  return json;
}

SpeedVerdict judge_times(double a, double b, double doubt, double threshold) {
  SpeedVerdict verdict;
  verdict.ratio = b / a;
  verdict.low = verdict.ratio * std::exp(-doubt);
  verdict.high = verdict.ratio * std::exp(doubt);
  verdict.speed = judge_interval(verdict.low, verdict.high, threshold);
  return verdict;
}

struct Measured {
  double seconds = 0.0;
  double spread = 0.0;
};

/// Returns the times of our kernels and their peers by card, case and plan.
std::map<std::string, Measured> read_times(const Json& report) {
  std::map<std::string, Measured> times;
  const auto add = [&](const std::string& name, const Json& figure) {
    const Measured measured{number_in(figure, "seconds"), number_in(figure, "spread")};
    if (measured.seconds > 0) {
      times[name] = measured;
    }
  };
  for (const Json& figure : report["kernels"]["figures"]) {
    const std::string plan = text_in(figure, "plan");
    const std::string name =
        fmt::format("{} {}{}{}", text_in(figure, "card"), text_in(figure, "case"),
                    plan.empty() ? "" : ", plan ", plan);
    add(name, figure);
    for (const Json& peer : array_in(figure, "peers")) {
      add(fmt::format("{}, {}", name, text_in(peer, "name")), peer);
    }
  }
  return times;
}

void compare_reports(const Json& a, const Json& b, double threshold, FileComparison& result) {
  const std::map<std::string, Measured> a_figures = read_times(a);
  const std::map<std::string, Measured> b_figures = read_times(b);
  for (const auto& [name, measured] : a_figures) {
    const auto match = b_figures.find(name);
    if (match == b_figures.end()) {
      result.unmatched.push_back("only in A: " + name);
      continue;
    }
    const Measured& other = match->second;
    const double doubt = kIntervalInSpreads * std::hypot(measured.spread / measured.seconds,
                                                         other.spread / other.seconds);
    result.times.push_back({name, measured.seconds, other.seconds,
                            judge_times(measured.seconds, other.seconds, doubt, threshold)});
  }
  for (const auto& [name, measured] : b_figures) {
    if (!a_figures.contains(name)) {
      result.unmatched.push_back("only in B: " + name);
    }
  }
}

void compare_profile(const Json& a, const Json& b, const std::string& prefix, double threshold,
                     FileComparison& result) {
  const Json& a_figures = a["figures"];
  const Json& b_figures = b["figures"];
  for (const auto& [name, value] : a_figures.items()) {
    if (!value.is_number() || !b_figures.contains(name) || !b_figures[name].is_number()) {
      result.unmatched.push_back(fmt::format("only in A: {}{}", prefix, name));
      continue;
    }
    const double first = value.get<double>();
    const double other = b_figures[name].get<double>();
    if (change_magnitude(name, first, other) > 0) {
      result.figures.push_back({prefix + name, first, other, !is_outcome(name)});
    }
    if (name == "seconds" && first > 0 && other > 0) {
      result.times.push_back(
          {prefix + "one launch", first, other,
           judge_times(first, other, kLaunchNoise, std::max(threshold, kLaunchThreshold))});
    }
  }
  for (const auto& [name, value] : b_figures.items()) {
    if (!a_figures.contains(name)) {
      result.unmatched.push_back(fmt::format("only in B: {}{}", prefix, name));
    }
  }
}

/// Returns SLOWER if any time has that verdict, else AMBIGUOUS, else FASTER.
Speed worst(const std::vector<ChangedTime>& times) {
  constexpr std::array kOrder = {Speed::kSlower, Speed::kAmbiguous, Speed::kFaster};
  for (const Speed speed : kOrder) {
    if (std::ranges::any_of(times, [&](const auto& time) { return time.verdict.speed == speed; })) {
      return speed;
    }
  }
  return times.empty() ? Speed::kAmbiguous : Speed::kSame;
}

}  // namespace

FileComparison compare_texts(const std::string& a_name, const std::string& a,
                             const std::string& b_name, const std::string& b, double threshold) {
  const Json first = parsed(a_name, a);
  const Json second = parsed(b_name, b);
  FileComparison result;
  const std::vector<Json> profiles = read_profiles(first);
  const std::vector<Json> others = read_profiles(second);
  const std::string a_kind = profiles.empty() ? document_kind(first) : "a profile";
  const std::string b_kind = others.empty() ? document_kind(second) : "a profile";
  for (const auto& [name, kind] : {std::tie(a_name, a_kind), std::tie(b_name, b_kind)}) {
    if (kind.empty()) {
      fail(
          "{} is neither a profile (`fovea kernel profile --output`) nor a bench report (`fovea "
          "kernel bench --json`)",
          name);
    }
  }
  if (a_kind != b_kind) {
    fail("cannot compare files of different kinds: {} is {}, and {} is {}", a_name, a_kind, b_name,
         b_kind);
  }
  result.is_profile = !profiles.empty();
  if (!result.is_profile) {
    compare_reports(first, second, threshold, result);
    result.machine = first.value("machine", Json()).dump();
  } else {
    if (profiles.size() != others.size()) {
      fail("cannot compare profiles of different cases: {} has {} kernels, and {} has {}", a_name,
           profiles.size(), b_name, others.size());
    }
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      const std::string prefix = profiles.size() == 1 ? "" : text_in(profiles[i], "kernel") + " ";
      compare_profile(profiles[i], others[i], prefix, threshold, result);
    }
    result.machine = profiles.front().value("machine", Json()).dump();
  }
  if (result.times.empty() && result.figures.empty()) {
    fail("{} and {} have no figure in common", a_name, b_name);
  }
  const auto by_name = [](const std::string& name) {
    const auto space = name.rfind(' ');
    return std::string_view(name).substr(space == std::string::npos ? 0 : space + 1);
  };
  sort_largest_first(
      result.times, [](const ChangedTime& time) { return std::abs(std::log(time.verdict.ratio)); });
  sort_largest_first(result.figures, [&](const ChangedFigure& figure) {
    return rank(figure.work, by_name(figure.name), figure.a, figure.b);
  });
  double sum = 0;
  for (const ChangedTime& time : result.times) {
    sum += std::log(time.verdict.ratio);
  }
  result.ratio =
      result.times.empty() ? 1 : std::exp(sum / static_cast<double>(result.times.size()));
  result.speed = worst(result.times);
  return result;
}

}  // namespace fovea::lab
