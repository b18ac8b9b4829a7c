// Implements include/fovea/check.hpp with src/pipeline.
#include "fovea/check.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/folder.hpp"
#include "io/text.hpp"
#include "pipeline/manifest.hpp"
#include "pipeline/output_files.hpp"
#include "pipeline/output_lock.hpp"
#include "pipeline/output_proof.hpp"
#include "pipeline/repair.hpp"
#include "pipeline/replacement.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea {
namespace {

using pipeline::finding_of;
using pipeline::Manifest;

void require_output(const io::Folder& folder) {
  bool has_output = folder.has(pipeline::kManifestFile);
  for (const std::string& name : folder.list()) {
    has_output = has_output || pipeline::is_shard_file(name);
  }
  if (!has_output) {
    fail("{}: this folder holds no output of `fovea embed`", io::escape(folder.path().native()));
  }
}

std::optional<Manifest> read_manifest(const io::Folder& folder, CheckReport& report) {
  std::optional<Manifest> manifest;
  const std::string problem = finding_of([&] {
    const pipeline::StoredFile file(folder, pipeline::kManifestFile);
    const std::string text = file.text(pipeline::kMaxManifestBytes);
    const std::string reason = finding_of([&] { manifest = pipeline::parse_manifest(text); });
    if (!reason.empty()) {
      fail("{}: {}", file.display_path(), reason);
    }
  });
  if (!problem.empty()) {
    report.problems.push_back(problem);
  }
  return manifest;
}

void check_without_checksums(const io::Folder& folder, const Manifest& manifest, StopFlag stop,
                             CheckReport& report) {
  report.has_checksums = false;
  if (!manifest.state.finished) {
    report.problems.push_back(
        fmt::format("{}: this output was begun by an earlier version of Fovea, which wrote no "
                    "checksums, so it cannot be checked",
                    io::escape((folder / pipeline::kManifestFile).native())));
    return;
  }
  std::string problem = finding_of([&] { pipeline::prove_unsummed(folder, manifest, stop); });
  if (!problem.empty()) {
    report.problems.push_back(std::move(problem));
  }
}

// Detects an update that was killed while it moved its files into place, and completes it when
// `options.repair` is set. Returns whether it remains unfinished: then the output cannot be
// checked.
bool is_update_unfinished(const std::shared_ptr<const io::Folder>& folder,
                          const CheckOptions& options, CheckReport& report) {
  const auto interrupted = pipeline::interrupted_replacement(*folder);
  if (!interrupted) {
    return false;
  }
  report.problems.push_back(
      fmt::format("{}: an update was killed while it moved its files into place; run the same "
                  "`fovea embed --update` again to complete it",
                  io::escape(options.output.native())));
  report.finished = false;
  report.can_repair = true;
  report.kept_finished = true;
  report.kept_inputs = interrupted->state.inputs;
  report.kept_rows = interrupted->state.rows;
  report.repaired = options.repair;
  if (options.repair) {
    pipeline::finish_replacement(folder);
  }
  return !options.repair;
}

}  // namespace

CheckReport check_output(const CheckOptions& options) {
  const StopFlag stop(options.stop);
  const auto folder = std::make_shared<const io::Folder>(options.output);
  require_output(*folder);
  std::optional<pipeline::OutputLock> write_lock;
  io::OpenedFile read_lock;
  if (options.repair) {
    write_lock.emplace(folder);
  } else {
    read_lock = pipeline::lock_shared(*folder);
  }
  CheckReport report;
  if (is_update_unfinished(folder, options, report)) {
    return report;
  }
  const std::size_t earlier_problem_count = report.problems.size();
  const std::optional<Manifest> manifest = read_manifest(*folder, report);
  if (manifest) {
    const pipeline::JobState& state = manifest->state;
    report.finished = state.finished;
    report.inputs = state.retrying ? state.all_inputs : state.inputs;
    report.rows = state.rows;
    report.failed = state.failed;
    report.files = state.shards;
    const pipeline::MissingShards& missing = manifest->identity.missing;
    report.missing = missing_shards_words(missing.numbers, missing.numbers.size(), missing.count);
    if (manifest->version < pipeline::kFirstSummedVersion) {
      check_without_checksums(*folder, *manifest, stop, report);
      return report;
    }
    if (state.finished || state.retrying || state.inputs > 0) {
      (void)pipeline::prove(*folder, *manifest, nullptr, stop, &report.problems);
    }
  }
  if (report.problems.size() == earlier_problem_count) {
    if (options.repair && manifest) {
      pipeline::remove_leftovers(*folder, manifest->state.finished);
    }
    return report;
  }
  const auto plan = pipeline::plan_repair(*folder, manifest, stop);
  if (plan) {
    report.can_repair = true;
    report.kept_finished = plan->manifest.state.finished;
    report.kept_inputs = plan->manifest.state.inputs;
    report.kept_rows = plan->manifest.state.rows;
  }
  if (plan && options.repair) {
    pipeline::apply_repair(*plan, folder);
    pipeline::remove_leftovers(*folder, plan->manifest.state.finished);
    report.repaired = true;
  }
  return report;
}

}  // namespace fovea
