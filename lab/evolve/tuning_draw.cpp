// Proposes variants by mutation, by crossover and, if these find nothing new, by scanning the
// table.
#include "lab/evolve/tuning_draw.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace fovea::lab {
namespace {

constexpr int kChangesPerChild = 2;  // number of parameters changed per child
constexpr int kMaxDraws = 64;  // number of draws before values may change arbitrarily, and again
                               // before the table is scanned
/// One in this number of changed values is arbitrary; the others are neighbours of the parent's
/// value.
constexpr int kNeighbourPeriod = 4;
constexpr int kOtherDesignPeriod = 4;  // one in this number of children belongs to another design

/// A random generator (splitmix64) whose numbers are the same with all compilers and libraries.
class Draw {
 public:
  Draw(std::uint64_t seed, int number)
      : state_(seed * 0xD1342543DE82EF95ULL + static_cast<std::uint64_t>(number)) {
    (void)next();
  }
  [[nodiscard]] std::size_t below(std::size_t count) { return next() % count; }

 private:
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBULL;
    return mixed ^ (mixed >> 31U);
  }
  std::uint64_t state_;
};

int& value_in(ParameterValues& values, const std::string& name) {
  return std::ranges::find(values, name, &std::pair<std::string, int>::first)->second;
}

/// Returns the parameters that have more than one value.
std::vector<ParameterRange> free_ranges(const TuningSpace& space) {
  std::vector<ParameterRange> free;
  std::ranges::copy_if(space.ranges, std::back_inserter(free),
                       [](const ParameterRange& range) { return range.values.size() > 1; });
  return free;
}

int other_value(const ParameterRange& range, int value, bool is_neighbour, Draw& draw) {
  const auto place = std::ranges::find(range.values, value);
  if (is_neighbour && place != range.values.end()) {
    const bool first = place == range.values.begin();
    const bool last = std::next(place) == range.values.end();
    return first || (!last && draw.below(2) == 1) ? *std::next(place) : *std::prev(place);
  }
  std::vector<int> others = range.values;
  std::erase(others, value);
  return others[draw.below(others.size())];
}

/// A tuning parameter that a hint from a profile suggests to change.
struct SuggestedParameter {
  const Hint* hint = nullptr;
  std::size_t index = 0;  // index in the ranges
  std::size_t sum = 0;    // cumulative strength, up to and including this one
};

/// Draws one of the parameters that the hints name, weighted by strength. Returns std::nullopt if
/// the hints name none of them.
std::optional<SuggestedParameter> draw_suggestion(std::span<const Hint> hints,
                                                  const std::vector<ParameterRange>& ranges,
                                                  Draw& draw) {
  constexpr double kResolution = 1000;
  std::vector<SuggestedParameter> candidates;
  std::size_t sum = 0;
  for (const Hint& hint : hints) {
    const std::string named = ", " + hint.parameter + ",";
    for (std::size_t index = 0; index < ranges.size(); ++index) {
      if (named.find(", " + ranges[index].name + ",") != std::string::npos) {
        sum += static_cast<std::size_t>(std::clamp(hint.strength, 0.001, 1e6) * kResolution);
        candidates.push_back({&hint, index, sum});
      }
    }
  }
  if (candidates.empty()) {
    return std::nullopt;
  }
  const std::size_t drawn = draw.below(sum);
  return *std::ranges::find_if(
      candidates, [&](const SuggestedParameter& candidate) { return drawn < candidate.sum; });
}

/// Changes two parameters and returns the reason for the choice, if a hint suggested it.
std::string mutate(Variant& variant, const std::vector<ParameterRange>& free,
                   std::span<const Hint> findings, bool anywhere, Draw& draw) {
  std::vector<ParameterRange> left = free;
  std::string reason;
  for (int changed = 0; changed < kChangesPerChild && !left.empty(); ++changed) {
    std::size_t index = draw.below(left.size());
    const auto suggested = changed == 0 ? draw_suggestion(findings, left, draw) : std::nullopt;
    if (suggested.has_value()) {
      index = suggested->index;
      reason =
          fmt::format("the profile says: {}; {}", suggested->hint->means, suggested->hint->attempt);
    }
    const bool is_neighbour = !anywhere && draw.below(kNeighbourPeriod) != 0;
    int& value = value_in(variant.values, left[index].name);
    value = other_value(left[index], value, is_neighbour, draw);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(index));
  }
  return reason;
}

/// Returns the leading candidate of each design except `best`. Leaders must win by a margin,
/// whereas noise would determine the fastest candidates, so that two runs with the same seed would
/// diverge.
std::vector<int> leaders_of_other_designs(const Situation& situation, const std::string& best) {
  std::vector<std::pair<std::string, int>> leaders;  // by family
  for (const Candidate& trial : situation.trials) {
    if (!trial.leads) {
      continue;
    }
    const std::string& family = find_space(situation.spaces, trial.proposal.variant.kernel).family;
    const auto leader = std::ranges::find(leaders, family, &std::pair<std::string, int>::first);
    if (leader == leaders.end()) {
      leaders.emplace_back(family, trial.number);
    } else {
      leader->second = trial.number;
    }
  }
  std::vector<int> numbers;
  for (const auto& [family, number] : leaders) {
    if (family != best) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

/// A new child, before its parameters are changed.
struct UnchangedChild {
  Variant variant;
  std::vector<int> parents;
};

class Drawing {
 public:
  Drawing(const Situation& situation, PopulationKind kind, const WhyIllegal& why_illegal,
          std::uint64_t seed)
      : situation_(situation),
        kind_(kind),
        why_illegal_(why_illegal),
        draw_(seed, situation.number) {}

  [[nodiscard]] std::optional<Proposal> propose_other_design() const {
    const std::string& start = find_space(situation_.spaces, candidate_variant(0).kernel).family;
    for (const TuningSpace& space : situation_.spaces) {
      Variant variant{.kernel = space.kernel, .values = space.values};
      if (space.family != start && is_new(variant)) {
        return Proposal{.variant = std::move(variant),
                        .parents = {0},
                        .reason = "another design, with its default values"};
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Proposal> child() {
    for (int attempt = 0; attempt < 2 * kMaxDraws; ++attempt) {
      UnchangedChild child = make_child(attempt);
      const auto free = free_ranges(find_space(situation_.spaces, child.variant.kernel));
      std::string reason;
      if (child.parents.size() == 1) {
        reason = mutate(child.variant, free, situation_.findings, attempt >= kMaxDraws, draw_);
      }
      if (is_new(child.variant)) {
        return describe_child(std::move(child), std::move(reason));
      }
    }
    return std::nullopt;
  }

  /// Scans the table for a new variant, starting at a random position.
  [[nodiscard]] std::optional<Proposal> scan_table() {
    for (const TuningSpace& space : situation_.spaces) {
      std::size_t count = 1;
      for (const ParameterRange& range : space.ranges) {
        count *= range.values.size();
      }
      const std::size_t first = draw_.below(count);
      for (std::size_t index = 0; index < count; ++index) {
        Variant variant{.kernel = space.kernel, .values = space.values};
        std::size_t rest = (first + index) % count;
        for (const ParameterRange& range : space.ranges) {
          value_in(variant.values, range.name) = range.values[rest % range.values.size()];
          rest /= range.values.size();
        }
        if (is_new(variant)) {
          return Proposal{
              .variant = std::move(variant),
              .parents = {parents().front()},
              .reason = "the next entry in the table: everything near the population was tried"};
        }
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::vector<int> parents() const {
    return situation_.parents.empty() ? std::vector<int>{0} : situation_.parents;
  }
  [[nodiscard]] const Variant& candidate_variant(int number) const {
    return situation_.trials[static_cast<std::size_t>(number)].proposal.variant;
  }
  [[nodiscard]] bool is_new(const Variant& variant) const {
    return !situation_.tried->contains(variant_key(variant, situation_.spaces)) &&
           why_illegal_(variant).empty();
  }

  UnchangedChild make_child(int attempt) {
    const std::vector<int> population = parents();
    const std::string& family =
        find_space(situation_.spaces, candidate_variant(population.front()).kernel).family;
    // If no new variant near the leader of another design is found, the child derives from the
    // population.
    if (situation_.number % kOtherDesignPeriod == 0 && attempt < kMaxDraws / 2) {
      if (const auto others = leaders_of_other_designs(situation_, family); !others.empty()) {
        const int number = others[draw_.below(others.size())];
        return {candidate_variant(number), {number}};
      }
    }
    const int first = population[draw_.below(population.size())];
    UnchangedChild child{candidate_variant(first), {first}};
    if (kind_ == PopulationKind::kElites && draw_.below(2) == 0) {
      const int second = population[draw_.below(population.size())];
      const Variant& other = candidate_variant(second);
      if (second != first && find_space(situation_.spaces, other.kernel).family ==
                                 find_space(situation_.spaces, child.variant.kernel).family) {
        child.parents.push_back(second);
        for (auto& [name, value] : child.variant.values) {
          value = draw_.below(2) == 0 ? value : value_of(other.values, name);
        }
      }
    }
    return child;
  }

  [[nodiscard]] Proposal describe_child(UnchangedChild child, std::string reason) const {
    if (reason.empty()) {
      reason =
          child.parents.size() > 1
              ? fmt::format("values of candidates {} and {}", child.parents[0], child.parents[1])
              : fmt::format("drawn from the table, starting from candidate {}", child.parents[0]);
    }
    return {.variant = std::move(child.variant),
            .parents = std::move(child.parents),
            .reason = std::move(reason)};
  }

  const Situation& situation_;
  PopulationKind kind_;
  const WhyIllegal& why_illegal_;
  Draw draw_;
};

}  // namespace

DrawnProposer::DrawnProposer(std::uint64_t seed, PopulationKind kind, WhyIllegal why_illegal)
    : seed_(seed), kind_(kind), why_illegal_(std::move(why_illegal)) {}

std::optional<Proposal> DrawnProposer::propose(const Situation& situation) {
  Drawing drawing(situation, kind_, why_illegal_, seed_);
  std::optional<Proposal> proposal = drawing.propose_other_design();
  if (!proposal.has_value()) {
    proposal = drawing.child();
  }
  return proposal.has_value() ? proposal : drawing.scan_table();
}

std::string DrawnProposer::why_none() const {
  return "everything that the table of tuning parameters allows was tried";
}

}  // namespace fovea::lab
