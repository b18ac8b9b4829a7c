// Rules that derive advice from the figures of a profile. The rules are data, which the code only
// evaluates.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/profile/profile.hpp"

namespace fovea::lab {

/// A limit for a figure. The condition is false for profiles without the figure, such as those
/// without source locations.
struct Condition {
  std::string_view figure;
  char sense = '>';
  double limit = 0.0;
};

/// The certainty of a rule: from 0 if the figure is at its limit to 1 at `certain`.
struct Certainty {
  std::string_view figure;
  double limit = 0.0;
  double certain = 0.0;  // less than the limit for figures whose small values are bad
};

struct Rule {
  std::string_view name;
  std::vector<Condition> all;         // conditions that must all be true
  std::vector<Condition> any{};       // if not empty: at least one of these must also be true
  std::vector<Certainty> strength{};  // the greatest certainty counts
  /// Factor for the strength; below 1 if the rule may also apply to good kernels.
  double weight = 1.0;
  std::string_view means;
  std::string_view attempt;
  std::string_view parameter;  // tuning parameters to change; empty if the source has to change
};

/// Returns all rules, in the order of the table in docs/laboratory.md.
[[nodiscard]] std::span<const Rule> rules();

/// A rule that applies to a profile.
struct Finding {
  const Rule* rule = nullptr;
  double strength = 0.0;
  std::vector<std::pair<std::string_view, double>> seen{};  // the figures in its conditions
};

/// Returns the rules that apply, strongest first. Throws fovea::Error if a rule refers to an
/// unknown figure.
[[nodiscard]] std::vector<Finding> findings(const Profile& profile);

/// Returns a figure as text: "stall_membar 43%".
[[nodiscard]] std::string figure_in_words(std::string_view name, double value);

}  // namespace fovea::lab
