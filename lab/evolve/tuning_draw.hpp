// DrawnProposer: proposals drawn from the table of tuning parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lab/evolve/evolution.hpp"

namespace fovea::lab {

/// Why a variant cannot be made, as far as that is known without compiling it; else empty.
using WhyIllegal = std::function<std::string(const Variant& variant)>;

/// First every other design with its own values; then children of the population with two
/// parameters changed, mostly to the value beside their own. One of four children is of the best
/// candidate of another design, where there are several. What is proposed depends on the seed, the
/// candidate's number, the population's members and what was tried before, and not on times.
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
