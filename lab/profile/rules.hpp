// Rules: what the figures of a profile mean, and what to try. Data alone decides which rule fires.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/profile/profile.hpp"

namespace fovea::lab {

/// A named figure on one side of a limit. A profile that lacks the figure, as one without places
/// does, meets no condition on it.
struct Condition {
  std::string_view figure;
  char sense = '>';
  double limit = 0.0;
};

/// How certain a rule is: from 0 at its limit to 1 where nothing else can be the matter.
struct Certainty {
  std::string_view figure;
  double limit = 0.0;
  double certain = 0.0;  // below the limit for figures that are bad when they are small
};

struct Rule {
  std::string_view name;
  std::vector<Condition> all;         // every one is met,
  std::vector<Condition> any{};       // and one of these, when there are some
  std::vector<Certainty> strength{};  // the greatest counts
  double weight = 1.0;                // of its strength: below 1 for what a good kernel may have
  std::string_view means;
  std::string_view attempt;
  std::string_view parameter;  // tuning parameters that do it; empty: the source has to change
};

/// All rules, in the order of the table in docs/laboratory.md.
[[nodiscard]] std::span<const Rule> rules();

/// A rule that fired.
struct Finding {
  const Rule* rule = nullptr;
  double strength = 0.0;
  std::vector<std::pair<std::string_view, double>> seen{};  // the figures of its conditions
};

/// The rules that fire, the strongest first. Throws fovea::Error when a rule asks for a figure that
/// there is not.
[[nodiscard]] std::vector<Finding> findings(const Profile& profile);

/// A figure as people read it: "stall_membar 43%".
[[nodiscard]] std::string figure_in_words(std::string_view name, double value);

}  // namespace fovea::lab
