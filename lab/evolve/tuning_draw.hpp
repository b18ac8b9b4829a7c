// DrawnProposer: draws proposals at random from the table of tuning parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lab/evolve/evolution.hpp"

namespace fovea::lab {

/// Returns why a variant is invalid, or "" if no reason is known without compiling it.
using WhyIllegal = std::function<std::string(const Variant& variant)>;

/// First proposes every other design with its default values, and then children of the population
/// with two parameters changed, mostly to a neighbouring value. If there are several designs, one
/// in four children derives from the best candidate of another design. Proposals depend on the
/// seed, the candidate's number, the members of the population and the variants tried before, but
/// not on measured times.
class DrawnProposer : public Proposer {
 public:
  DrawnProposer(std::uint64_t seed, PopulationKind kind, WhyIllegal why_illegal);

  [[nodiscard]] std::optional<Proposal> propose(const Situation& situation) override;
  [[nodiscard]] std::string why_none() const override;
  [[nodiscard]] bool is_repeatable() const override { return true; }

 private:
  std::uint64_t seed_;
  PopulationKind kind_;
  WhyIllegal why_illegal_;
};

}  // namespace fovea::lab
