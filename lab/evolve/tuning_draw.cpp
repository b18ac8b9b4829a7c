// Proposes by mutation, by crossover and, if these find nothing new, by scanning the table.
#include "lab/evolve/tuning_draw.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace fovea::lab {
namespace {

constexpr int kChanged = 2;         // parameters changed per child
constexpr int kAttempts = 64;       // draws before all values may change, and before the table is
                                    // scanned
constexpr int kNeighboursOf = 4;    // three of four changed values are neighbours of the parent's
                                    // value
constexpr int kOtherDesignsOf = 4;  // one of four children belongs to another design

/// A random generator (splitmix64) whose numbers do not depend on compiler and library.
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

int other_value(const ParameterRange& range, int value, bool beside, Draw& draw) {
  const auto place = std::ranges::find(range.values, value);
  if (beside && place != range.values.end()) {
    const bool first = place == range.values.begin();
    const bool last = std::next(place) == range.values.end();
    return first || (!last && draw.below(2) == 1) ? *std::next(place) : *std::prev(place);
  }
  std::vector<int> others = range.values;
  std::erase(others, value);
  return others[draw.below(others.size())];
}

/// A tuning parameter that a profile's hint suggests to change.
struct Steered {
  const Hint* hint = nullptr;
  std::size_t which = 0;  // index in the ranges
  std::size_t sum = 0;    // cumulative strength, up to and including this one
};

/// Draws one of the parameters that the hints name, weighted by strength; none if they name none.
std::optional<Steered> steering(std::span<const Hint> hints,
                                const std::vector<ParameterRange>& ranges, Draw& draw) {
  constexpr double kGrains = 1000;
  std::vector<Steered> known;
  std::size_t sum = 0;
  for (const Hint& hint : hints) {
    const std::string named = ", " + hint.parameter + ",";
    for (std::size_t which = 0; which < ranges.size(); ++which) {
      if (named.find(", " + ranges[which].name + ",") != std::string::npos) {
        sum += static_cast<std::size_t>(std::clamp(hint.strength, 0.001, 1e6) * kGrains);
        known.push_back({&hint, which, sum});
      }
    }
  }
  if (known.empty()) {
    return std::nullopt;
  }
  const std::size_t drawn = draw.below(sum);
  return *std::ranges::find_if(known,
                               [&](const Steered& candidate) { return drawn < candidate.sum; });
}

/// Changes two parameters; returns the reason for the choice.
std::string mutate(Variant& variant, const std::vector<ParameterRange>& free,
                   std::span<const Hint> findings, bool anywhere, Draw& draw) {
  std::vector<ParameterRange> left = free;
  std::string reason;
  for (int changed = 0; changed < kChanged && !left.empty(); ++changed) {
    std::size_t which = draw.below(left.size());
    const auto steered = changed == 0 ? steering(findings, left, draw) : std::nullopt;
    if (steered.has_value()) {
      which = steered->which;
      reason =
          fmt::format("the profile says: {}; {}", steered->hint->means, steered->hint->attempt);
    }
    const bool beside = !anywhere && draw.below(kNeighboursOf) != 0;
    int& value = value_in(variant.values, left[which].name);
    value = other_value(left[which], value, beside, draw);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(which));
  }
  return reason;
}

/// Returns the leading candidate of each design except that of `best`. Leaders are used because the
/// fastest candidate by a small margin is determined by noise: two runs with one seed would
/// diverge.
std::vector<int> leaders_of_other_designs(const Situation& situation, const std::string& best) {
  std::vector<std::pair<std::string, int>> found;  // by family
  for (const Candidate& trial : situation.trials) {
    if (!trial.leads) {
      continue;
    }
    const std::string& family = space_of(situation.spaces, trial.proposal.variant.kernel).family;
    const auto known = std::ranges::find(found, family, &std::pair<std::string, int>::first);
    if (known == found.end()) {
      found.emplace_back(family, trial.number);
    } else {
      known->second = trial.number;
    }
  }
  std::vector<int> numbers;
  for (const auto& [family, number] : found) {
    if (family != best) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

/// A child before its parameters are changed.
struct Child0 {
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

  [[nodiscard]] std::optional<Proposal> another_design() const {
    const std::string& start = space_of(situation_.spaces, variant_of(0).kernel).family;
    for (const TuningSpace& space : situation_.spaces) {
      Variant variant{.kernel = space.kernel, .values = space.values};
      if (space.family != start && is_new(variant)) {
        return Proposal{.variant = std::move(variant),
                        .parents = {0},
                        .reason = "another design, with its own values"};
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Proposal> child() {
    for (int attempt = 0; attempt < 2 * kAttempts; ++attempt) {
      Child0 child = conceive(attempt);
      const auto free = free_ranges(space_of(situation_.spaces, child.variant.kernel));
      std::string reason;
      if (child.parents.size() == 1) {
        reason = mutate(child.variant, free, situation_.findings, attempt >= kAttempts, draw_);
      }
      if (is_new(child.variant)) {
        return named(std::move(child), std::move(reason));
      }
    }
    return std::nullopt;
  }

  /// Scans the table from a random position for a variant that is new.
  [[nodiscard]] std::optional<Proposal> anything() {
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
  [[nodiscard]] const Variant& variant_of(int number) const {
    return situation_.trials[static_cast<std::size_t>(number)].proposal.variant;
  }
  [[nodiscard]] bool is_new(const Variant& variant) const {
    return !situation_.tried->contains(identity_of(variant, situation_.spaces)) &&
           why_illegal_(variant).empty();
  }

  Child0 conceive(int attempt) {
    const std::vector<int> population = parents();
    const std::string& family =
        space_of(situation_.spaces, variant_of(population.front()).kernel).family;
    // When all variants near the leader of another design were tried, the population gets an
    // additional child.
    if (situation_.number % kOtherDesignsOf == 0 && attempt < kAttempts / 2) {
      if (const auto others = leaders_of_other_designs(situation_, family); !others.empty()) {
        const int number = others[draw_.below(others.size())];
        return {variant_of(number), {number}};
      }
    }
    const int first = population[draw_.below(population.size())];
    Child0 child{variant_of(first), {first}};
    if (kind_ == PopulationKind::kElites && draw_.below(2) == 0) {
      const int second = population[draw_.below(population.size())];
      const Variant& other = variant_of(second);
      if (second != first && space_of(situation_.spaces, other.kernel).family ==
                                 space_of(situation_.spaces, child.variant.kernel).family) {
        child.parents.push_back(second);
        for (auto& [name, value] : child.variant.values) {
          value = draw_.below(2) == 0 ? value : value_of(other.values, name);
        }
      }
    }
    return child;
  }

  [[nodiscard]] Proposal named(Child0 child, std::string reason) const {
    if (reason.empty()) {
      reason =
          child.parents.size() > 1
              ? fmt::format("values of candidates {} and {}", child.parents[0], child.parents[1])
              : fmt::format("drawn from the table, from candidate {}", child.parents[0]);
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
  std::optional<Proposal> proposal = drawing.another_design();
  if (!proposal.has_value()) {
    proposal = drawing.child();
  }
  return proposal.has_value() ? proposal : drawing.anything();
}

std::string DrawnProposer::why_none() const {
  return "everything that the table of tuning parameters allows was tried";
}

}  // namespace fovea::lab
