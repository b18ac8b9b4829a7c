// The mutation score of the emulator: the share of mutants of our own kernels that it catches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/archs.hpp"
#include "lab/cards/card.hpp"
#include "lab/mutation/mutants.hpp"

namespace fovea::mutation {

struct ScoreOptions {
  int arch = gpu::kDefaultArch;  // an architecture that the emulator supports
  std::uint64_t seed = 1;        // seed of inputs, schedules, and the choice of mutants
  int schedules = 50;            // a mutant survives if none of these catches it
  /// Maximal number of mutants per kernel, balanced over the kinds; 0: all.
  int limit = 0;
  std::string only_case{};    // empty: all that are small enough
  std::string only_kernel{};  // empty: all kernels of the cards
  int only_line = 0;          // line of the PTX; 0: all
};

enum class Fate : std::uint8_t { kCaught, kSurvived, kNotReached };

struct MutantResult {
  PtxMutant mutant;
  Fate fate = Fate::kNotReached;
  int schedules = 0;        // number of schedules that were run
  std::string case_name{};  // card, case and plan that caught it, else the first that were run
  std::string reason{};     // the finding, or what is wrong with the output
};

/// Runs the mutants on the cards' cases that execute the mutated line, first the one with the least
/// arithmetic, then several in rotation until the mutant is caught: by a finding, by a result that
/// the card's tolerance rejects, or by bytes that differ from those of the previous schedule.
/// `report` is called in the mutants' order as they finish. Throws fovea::Error if there is nothing
/// to run, or if an unmodified kernel fails.
[[nodiscard]] std::vector<MutantResult> score(
    const std::vector<const lab::Card*>& cards, const ScoreOptions& options,
    const std::function<void(const MutantResult&)>& report);

/// Returns the share of reached mutants that were caught; 1 if none was reached.
[[nodiscard]] double share_caught(const std::vector<MutantResult>& results);
/// Returns a table with a line for each kind: caught, reached, not reached.
[[nodiscard]] std::string table_of(const std::vector<MutantResult>& results);
[[nodiscard]] std::string to_json(const ScoreOptions& options,
                                  const std::vector<MutantResult>& results);

}  // namespace fovea::mutation
