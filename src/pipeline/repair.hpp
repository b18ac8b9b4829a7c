// Repairs a damaged output: resets it to the last state that all of its files match.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/stop.hpp"
#include "io/folder.hpp"
#include "pipeline/journal.hpp"
#include "pipeline/manifest.hpp"

namespace fovea::pipeline {

/// The changes that a repair would make.
struct RepairPlan {
  Manifest manifest;
  std::string journal;
  /// A complete file whose rows are intact, but whose header or size is wrong.
  struct Fix {
    std::string name;
    std::uint64_t bytes = 0;
    std::string header;
  };
  std::vector<Fix> fixes;
};

/// Returns the plan that keeps the most rows; nullopt when no state matches the files.
/// `stored_manifest`: the manifest, if it is readable. Throws Interrupted when `stop` is set.
[[nodiscard]] std::optional<RepairPlan> plan_repair(const io::Folder& folder,
                                                    const std::optional<Manifest>& stored_manifest,
                                                    StopFlag stop);

/// Carries out the plan. An output whose repair was killed can be repaired again.
void apply_repair(const RepairPlan& plan, const std::shared_ptr<const io::Folder>& folder);

}  // namespace fovea::pipeline
