// Plans a repair: finds the last state in manifest.json and checksums.jsonl that all files match.
#include "pipeline/repair.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include <unistd.h>

#include "io/atomic_file.hpp"
#include "io/partial_file.hpp"
#include "io/system_error.hpp"
#include "io/write_all.hpp"
#include "pipeline/fingerprint.hpp"
#include "pipeline/journal.hpp"
#include "pipeline/output_files.hpp"
#include "pipeline/output_proof.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea::pipeline {
namespace {

// A state to which the job may be reset, and the size of the journal up to it.
struct Candidate {
  JobState state;
  std::size_t journal_size = 0;
};
using Candidates = std::vector<Candidate>;

bool same_job(const JobIdentity& a, const JobIdentity& b) {
  return format_journal_line(a) == format_journal_line(b);
}

// Returns the current name of a file: the final name, or the ".partial" name.
std::string stored_name(const io::Folder& folder, const std::string& name, bool finished) {
  return finished && folder.has(name) ? name : io::PartialFile::left_as(folder, name);
}

// Reads the lines of checksums.jsonl that are valid and consistent, and collects their states.
class JournalReader {
 public:
  JournalReader(const io::Folder& folder, const std::optional<Manifest>& stored_manifest,
                StopFlag stop) {
    const std::string name = stored_name(
        folder, kJournalFile, stored_manifest.has_value() && stored_manifest->state.finished);
    (void)finding_of([&] { read_identity_line(StoredFile(folder, name), stored_manifest, stop); });
    if (!identity_ && stored_manifest) {
      identity_ = stored_manifest->identity;
    }
    if (!identity_) {
      return;
    }
    add_line(*identity_);
    (void)finding_of([&] {
      const StoredFile file(folder, name);
      std::uint64_t end = 0;
      file.each_line(file.size(), stop, [&](std::string_view text, std::uint64_t /*number*/) {
        end += text.size() + 1;
        (void)finding_of([&] {
          const JournalLine line = parse_journal_line(text);
          if (!std::holds_alternative<JobIdentity>(line)) {
            add_line(line);
          }
        });
        if (manifest_ && end == manifest_->state.journal_bytes) {
          add_manifest(*manifest_);
        }
      });
    });
    // The state of the manifest may be out of order, so the states are sorted by progress.
    std::ranges::sort(candidates_, {}, [](const Candidate& candidate) {
      const JobState& s = candidate.state;
      return std::tuple(s.shards, s.open_rows, s.inputs, candidate.journal_size);
    });
  }

  [[nodiscard]] const std::optional<JobIdentity>& identity() const { return identity_; }
  [[nodiscard]] const JournalSummary& summary() const { return summary_; }
  [[nodiscard]] const Candidates& candidates() const { return candidates_; }
  [[nodiscard]] std::string text(std::size_t size) const { return text_.substr(0, size); }
  /// Returns the manifest if it belongs to the journal.
  [[nodiscard]] const std::optional<Manifest>& manifest() const { return manifest_; }
  [[nodiscard]] bool finished() const { return manifest_ && manifest_->state.finished; }

 private:
  // Reads the identity of the job, and sets manifest_ if the manifest belongs to the same output.
  void read_identity_line(const StoredFile& file, const std::optional<Manifest>& stored_manifest,
                          StopFlag stop) {
    bool is_damaged = false;
    file.each_line(file.size(), stop, [&](std::string_view text, std::uint64_t /*number*/) {
      const std::string problem = finding_of([&] {
        const JournalLine line = parse_journal_line(text);
        if (const auto* const identity = std::get_if<JobIdentity>(&line)) {
          identity_ = *identity;
        }
      });
      is_damaged = is_damaged || !problem.empty();
    });
    if (!stored_manifest || (identity_ && !same_job(*identity_, stored_manifest->identity))) {
      return;
    }
    const JobState& state = stored_manifest->state;
    if (is_damaged || file.sums(0, {state.journal_bytes}, stop) ==
                          std::vector<std::uint64_t>{state.journal_sum}) {
      manifest_ = stored_manifest;
    }
  }

  void add_line(const JournalLine& line) {
    summary_.add(line);
    text_ += format_journal_line(line);
    if (std::holds_alternative<RetryRecord>(line)) {
      candidates_.clear();  // the errors of the previous pass are gone
      add_retry(*summary_.previous_pass());
    } else if (std::holds_alternative<JobState>(line)) {
      add_state(*summary_.state());
    }
  }

  void add_retry(JobState state) {
    state.retrying = true;
    state.retries = summary_.retries();
    state.inputs = 0;
    state.names = NameHash().value();
    state.failed = 0;
    state.errors_bytes = 0;
    state.errors_sum = io::Digest().head();
    state.all_inputs = summary_.first_pass()->inputs;
    state.all_names = summary_.first_pass()->names;
    candidates_.push_back({state, text_.size()});
  }

  void add_state(JobState state) {
    if (state.retrying && state.open_rows == 0 && state.rows + state.failed == state.all_inputs) {
      state.inputs = state.all_inputs;
      state.names = state.all_names;
      state.retrying = false;
      state.finished = true;
    } else if (state.rows + state.failed != summary_.rows_before_pass() + state.inputs) {
      return;
    }
    candidates_.push_back({state, text_.size()});
  }

  void add_manifest(const Manifest& manifest) {
    if (finding_of([&] { prove_counts(manifest, summary_); }).empty()) {
      candidates_.push_back({manifest.state, text_.size()});
    }
  }

  std::optional<JobIdentity> identity_;
  std::optional<Manifest> manifest_;
  JournalSummary summary_;
  std::string text_;
  Candidates candidates_;
};

class Planner {
 public:
  Planner(const io::Folder& folder, const JournalReader& journal, const JobIdentity& identity,
          StopFlag stop)
      : folder_(folder), journal_(journal), identity_(identity), layout_(identity), stop_(stop) {}

  std::optional<RepairPlan> plan() {
    count_valid_files();
    const Candidate* const best = find_best();
    if (best == nullptr) {
      return std::nullopt;
    }
    RepairPlan plan;
    plan.manifest = {.identity = identity_, .state = best->state};
    plan.journal = journal_.text(best->journal_size);
    plan.manifest.state.journal_bytes = plan.journal.size();
    plan.manifest.state.journal_sum = io::Digest::sha256_head(plan.journal);
    plan.fixes = std::move(fixes_);
    return plan;
  }

 private:
  using Selection = std::vector<const Candidate*>;

  void count_valid_files() {
    for (const FileRecord& file : journal_.summary().files()) {
      const bool is_valid =
          (index_problem(folder_, layout_, file, nullptr, stop_).empty() ||
           add_fix(layout_.index_file(file.number), "", file.index_bytes, file.index_sum)) &&
          (data_problem(folder_, layout_, file, nullptr, stop_).empty() ||
           add_fix(layout_.data_file(file.number), layout_.header(file.rows), file.data_bytes,
                   file.data_sum));
      if (!is_valid) {
        return;
      }
      ++valid_files_;
    }
  }

  // Plans to restore the header and the size of a file. Returns false when its content is damaged.
  [[nodiscard]] bool add_fix(const std::string& name, const std::string& header,
                             std::uint64_t bytes, std::uint64_t sum) {
    std::vector<std::uint64_t> sums;
    (void)finding_of([&] { sums = StoredFile(folder_, name).sums(header.size(), {bytes}, stop_); });
    if (sums != std::vector<std::uint64_t>{sum}) {
      return false;
    }
    fixes_.push_back({.name = name, .bytes = bytes, .header = header});
    return true;
  }

  // Returns the candidates whose checksum matches the beginning of the file. `bytes`, `sum`: the
  // fields of a state that hold the size and the checksum. `begin`: the size of the header.
  [[nodiscard]] Selection matching(const std::string& name, std::uint64_t begin,
                                   const Selection& candidates, std::uint64_t JobState::* bytes,
                                   std::uint64_t JobState::* sum) const {
    std::vector<std::uint64_t> ends;
    std::ranges::transform(candidates, std::back_inserter(ends),
                           [&](const Candidate* candidate) { return candidate->state.*bytes; });
    std::vector<std::uint64_t> sums;
    (void)finding_of([&] {
      sums = StoredFile(folder_, stored_name(folder_, name, journal_.finished()))
                 .sums(begin, ends, stop_);
    });
    Selection matches;
    for (std::size_t index = 0; index < sums.size(); ++index) {
      if (sums[index] == candidates[index]->state.*sum) {
        matches.push_back(candidates[index]);
      }
    }
    return matches;
  }

  // Returns the candidates that match errors.jsonl.
  [[nodiscard]] Selection matching_errors(const Selection& candidates) const {
    Selection matches;
    Selection with_errors;
    for (const Candidate* const candidate : candidates) {
      const JobState& state = candidate->state;
      if (state.finished) {
        const auto info = folder_.examine(kErrorsFile);
        if (!info || static_cast<std::uint64_t>(info->st_size) != state.errors_bytes) {
          continue;
        }
      }
      (state.errors_bytes == 0 ? matches : with_errors).push_back(candidate);
    }
    std::ranges::copy(
        matching(kErrorsFile, 0, with_errors, &JobState::errors_bytes, &JobState::errors_sum),
        std::back_inserter(matches));
    return matches;
  }

  // Returns whether a state belongs to the last pass. The errors of earlier passes no longer exist.
  [[nodiscard]] bool is_of_last_pass(const JobState& state) const {
    const std::optional<Manifest>& stored_manifest = journal_.manifest();
    return stored_manifest ? state.retries == stored_manifest->state.retries
                           : state.retrying || state.finished || !folder_.has(kRetryingFile);
  }

  [[nodiscard]] bool has_retry_list(const JobState& state) const {
    const JournalSummary& summary = journal_.summary();
    const JobState* const previous_pass =
        summary.retries() == state.retries ? summary.previous_pass() : summary.state();
    return !state.retrying ||
           (previous_pass != nullptr &&
            finding_of([&] { prove_retry_list(folder_, *previous_pass, stop_); }).empty());
  }

  // Returns the last state that matches all files; null when there is none.
  [[nodiscard]] const Candidate* find_best() const {
    Selection candidates;
    for (const Candidate& candidate : journal_.candidates()) {
      if (candidate.state.shards <= valid_files_ && is_of_last_pass(candidate.state)) {
        candidates.push_back(&candidate);
      }
    }
    candidates = matching_errors(candidates);
    for (std::uint64_t number = valid_files_ + 1; number-- > 0;) {
      Selection growing;
      const Candidate* best = nullptr;
      for (const Candidate* const candidate : candidates) {
        if (candidate->state.shards == number) {
          if (candidate->state.open_rows == 0) {
            best = candidate;
          } else {
            growing.push_back(candidate);
          }
        }
      }
      growing = matching(layout_.data_file(number), layout_.header_bytes(), growing,
                         &JobState::open_bytes, &JobState::data_sum);
      if (layout_.has_index()) {
        growing = matching(layout_.index_file(number), 0, growing, &JobState::index_bytes,
                           &JobState::index_sum);
      }
      best = growing.empty() ? best : growing.back();
      if (best != nullptr && has_retry_list(best->state)) {
        return best;
      }
    }
    return nullptr;
  }

  const io::Folder& folder_;
  const JournalReader& journal_;
  const JobIdentity& identity_;
  OutputLayout layout_;
  StopFlag stop_;
  std::uint64_t valid_files_ = 0;
  std::vector<RepairPlan::Fix> fixes_;
};

}  // namespace

std::optional<RepairPlan> plan_repair(const io::Folder& folder,
                                      const std::optional<Manifest>& stored_manifest,
                                      StopFlag stop) {
  const JournalReader journal(folder, stored_manifest, stop);
  const std::optional<JobIdentity>& identity = journal.identity();
  return identity ? Planner(folder, journal, *identity, stop).plan() : std::nullopt;
}

void apply_repair(const RepairPlan& plan, const std::shared_ptr<const io::Folder>& folder) {
  const OutputLayout layout(plan.manifest.identity);
  for (const RepairPlan::Fix& fix : plan.fixes) {
    const io::Descriptor file = folder->open_to_write(fix.name, false);
    io::write_all_at(file.get(), std::as_bytes(std::span(fix.header)), 0, *folder / fix.name);
    if (::ftruncate(file.get(), static_cast<off_t>(fix.bytes)) != 0) {
      io::fail_with_errno(*folder / fix.name, "repair");
    }
    io::sync_file(file, *folder / fix.name);
  }
  if (plan.manifest.state.finished) {  // a job that resumes removes them itself
    for (const std::string& name : uncounted_files(*folder, layout, plan.manifest.state)) {
      folder->remove(name);
    }
  }
  // A later run reads the journal under this name, whether the job is finished or resumes.
  io::write_file_atomically(
      folder, plan.manifest.state.finished ? kJournalFile : partial_name(kJournalFile),
      plan.journal);
  io::write_file_atomically(folder, kManifestFile, format_manifest(plan.manifest));
}

}  // namespace fovea::pipeline
