// Going back to the last state of a damaged output that its files prove.
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

/// What a repair would write.
struct RepairPlan {
  Manifest manifest;
  std::string journal;
  /// Complete files with all that was written, but for a header, or with more after it.
  struct Mend {
    std::string name;
    std::uint64_t bytes = 0;
    std::string header;
  };
  std::vector<Mend> mends;
};

/// The plan that keeps the most rows, or nothing when no row is proven. `there`: the manifest, when
/// it can be read. Reads whatever it has to; throws Interrupted when `stop` is set.
[[nodiscard]] std::optional<RepairPlan> plan_repair(const io::Folder& folder,
                                                    const std::optional<Manifest>& there,
                                                    StopFlag stop);

/// Writes what is planned. Killed in between, it leaves an output that can be repaired again.
void carry_out(const RepairPlan& plan, const std::shared_ptr<const io::Folder>& folder);

}  // namespace fovea::pipeline
