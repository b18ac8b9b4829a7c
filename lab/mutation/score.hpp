// The mutation score of the emulator: how many mutants of our own kernels it notices.
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
  int arch = gpu::kDefaultArch;  // one that the emulator has
  std::uint64_t seed = 1;        // of inputs, schedules, and which mutants are tried
  int schedules = 50;            // that a mutant has to survive
  /// Mutants of each kernel, as many of each kind as of others as far as there are; 0: all.
  int limit = 0;
  std::string only_case{};    // empty: all that are small enough
  std::string only_kernel{};  // empty: all of the cards
  int only_line = 0;          // of the PTX; 0: all
};

enum class Fate : std::uint8_t { kCaught, kSurvived, kNotReached };

struct MutantResult {
  PtxMutant mutant;
  Fate fate = Fate::kNotReached;
  int schedules = 0;        // that were run
  std::string case_name{};  // the card, its case and plan: of the one that caught it, or the first
  std::string reason{};     // the finding, or what is wrong with the output
};

/// Runs the mutants on the cards' cases that reach them, the one with the least arithmetic first,
/// and on several in turns as long as nothing is noticed: a finding, a result that the card's gate
/// rejects, or other bytes than on the schedule before. `report` is called as each is done, in
/// their order. Throws fovea::Error when there is nothing to run, or when a kernel as it is is not
/// right.
[[nodiscard]] std::vector<MutantResult> score(
    const std::vector<const lab::Card*>& cards, const ScoreOptions& options,
    const std::function<void(const MutantResult&)>& report);

/// Caught, of all that were reached; 1 when none was.
[[nodiscard]] double share_caught(const std::vector<MutantResult>& results);
/// A line for each kind: caught, reached, not reached.
[[nodiscard]] std::string table_of(const std::vector<MutantResult>& results);
[[nodiscard]] std::string to_json(const ScoreOptions& options,
                                  const std::vector<MutantResult>& results);

}  // namespace fovea::mutation
