// Rules: what the figures of a profile mean, and what to try. The rules are data; the code only
// evaluates them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/profile/profile.hpp"

namespace fovea::lab {

/// A limit for a figure. A profile without the figure, such as one without source locations, does
/// not satisfy the condition.
struct Condition {
  std::string_view figure;
  char sense = '>';
  double limit = 0.0;
};

/// How certain a rule is: from 0 at its limit to 1 at `certain`.
struct Certainty {
  std::string_view figure;
  double limit = 0.0;
  double certain = 0.0;  // less than the limit, for figures where small values are bad
};

struct Rule {
  std::string_view name;
  std::vector<Condition> all;         // all of these must hold,
  std::vector<Condition> any{};       // and one of these, if there are any
  std::vector<Certainty> strength{};  // the greatest one counts
  double weight = 1.0;                // factor for the strength: below 1 for what good kernels may
                                      // show, too
  std::string_view means;
  std::string_view attempt;
  std::string_view parameter;  // tuning parameters to change; empty: the source has to change
};

/// Returns all rules, in the order of the table in docs/laboratory.md.
[[nodiscard]] std::span<const Rule> rules();

/// A rule that fired.
struct Finding {
  const Rule* rule = nullptr;
  double strength = 0.0;
  std::vector<std::pair<std::string_view, double>> seen{};  // the figures of its conditions
};

/// Returns the rules that fire, the strongest first. Throws fovea::Error if a rule refers to an
/// unknown figure.
[[nodiscard]] std::vector<Finding> findings(const Profile& profile);

/// Formats a figure for people: "stall_membar 43%".
[[nodiscard]] std::string figure_in_words(std::string_view name, double value);

}  // namespace fovea::lab
