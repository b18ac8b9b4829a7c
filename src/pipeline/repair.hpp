// Repairs a damaged output by going back to the last state that its files prove.
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
  /// Complete files whose content is whole, except for the header or for bytes after it.
  struct Mend {
    std::string name;
    std::uint64_t bytes = 0;
    std::string header;
  };
  std::vector<Mend> mends;
};

/// The plan that keeps the most rows, or nothing when no row is proven. `there`: the manifest, if
/// it is readable. Reads all files that it needs; throws Interrupted when `stop` is set.
[[nodiscard]] std::optional<RepairPlan> plan_repair(const io::Folder& folder,
                                                    const std::optional<Manifest>& there,
                                                    StopFlag stop);

/// Carries out the plan. If it is killed, the output can be repaired again.
void carry_out(const RepairPlan& plan, const std::shared_ptr<const io::Folder>& folder);

}  // namespace fovea::pipeline
