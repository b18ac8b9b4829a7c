// The mutation score of the emulator: the share of mutants of this project's kernels that it
// catches.
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
  int arch = gpu::kDefaultArch;  // an emulated architecture
  std::uint64_t seed = 1;        // seed of inputs, schedules, and the choice of mutants
  int schedules = 50;            // maximal number of schedules per mutant
  /// Maximal number of mutants per kernel, with similar numbers of each kind; 0: all.
  int limit = 0;
  std::string only_case{};    // empty: all cases that are small enough
  std::string only_kernel{};  // empty: all kernels of the cards
  int only_line = 0;          // line of the PTX; 0: all
};

enum class Fate : std::uint8_t { kCaught, kSurvived, kNotReached };

struct MutantResult {
  PtxMutant mutant;
  Fate fate = Fate::kNotReached;
  int schedules = 0;  // number of schedules that were run
  std::string
      case_name{};       // card, case and plan of the run that caught it, or else of the first run
  std::string reason{};  // the finding, or what is wrong with the output
};

/// Runs each mutant with those cases of the cards that execute the mutated line, first with the
/// smallest one, then with several in rotation, until the mutant is caught: by a finding, by an
/// output that the card's tolerance rejects, or by an output that differs from that of another
/// schedule. Calls `report` in the order of the mutants. Throws fovea::Error if there is nothing to
/// run, or if an unmodified kernel fails.
[[nodiscard]] std::vector<MutantResult> score(
    const std::vector<const lab::Card*>& cards, const ScoreOptions& options,
    const std::function<void(const MutantResult&)>& report);

/// Returns the share of reached mutants that were caught; 1 if none was reached.
[[nodiscard]] double share_caught(const std::vector<MutantResult>& results);
/// Returns a table with the numbers of caught, reached and not reached mutants of each kind.
[[nodiscard]] std::string score_table(const std::vector<MutantResult>& results);
[[nodiscard]] std::string to_json(const ScoreOptions& options,
                                  const std::vector<MutantResult>& results);

}  // namespace fovea::mutation
