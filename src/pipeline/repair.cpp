// Finds the states in manifest.json and checksums.jsonl that the other files prove.
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

// A state to which the job may go back, and the part of the journal that belongs to it.
struct Candidate {
  JobState state;
  std::size_t journal_size = 0;
};
using Candidates = std::vector<Candidate>;

bool same_job(const JobIdentity& a, const JobIdentity& b) {
  return format_journal_line(a) == format_journal_line(b);
}

// Returns the current name of a file: its final name, or the ".partial" name.
std::string found_as(const io::Folder& folder, const std::string& name, bool finished) {
  return finished && folder.has(name) ? name : io::PartialFile::left_as(folder, name);
}

// Reads checksums.jsonl as far as its lines are whole and follow from one another, and collects the
// states in it.
class JournalReader {
 public:
  JournalReader(const io::Folder& folder, const std::optional<Manifest>& there, StopFlag stop) {
    const std::string name =
        found_as(folder, kJournalFile, there.has_value() && there->state.finished);
    (void)finding_of([&] { look_at(StoredFile(folder, name), there, stop); });
    if (!identity_ && there) {
      identity_ = there->identity;
    }
    if (!identity_) {
      return;
    }
    take(*identity_);
    (void)finding_of([&] {
      const StoredFile file(folder, name);
      std::uint64_t end = 0;
      file.each_line(file.size(), stop, [&](std::string_view text, std::uint64_t /*number*/) {
        end += text.size() + 1;
        (void)finding_of([&] {
          const JournalLine line = parse_journal_line(text);
          if (!std::holds_alternative<JobIdentity>(line)) {
            take(line);
          }
        });
        if (manifest_ && end == manifest_->state.journal_bytes) {
          take_manifest(*manifest_);
        }
      });
    });
    // Sorts by the progress of the job, because the state of the manifest may be out of order.
    std::ranges::sort(candidates_, {}, [](const Candidate& candidate) {
      const JobState& s = candidate.state;
      return std::tuple(s.shards, s.open_rows, s.inputs, candidate.journal_size);
    });
  }

  [[nodiscard]] const std::optional<JobIdentity>& identity() const { return identity_; }
  [[nodiscard]] const JournalSummary& summary() const { return summary_; }
  [[nodiscard]] const Candidates& candidates() const { return candidates_; }
  [[nodiscard]] std::string text(std::size_t size) const { return text_.substr(0, size); }
  /// The manifest, if it belongs to the journal.
  [[nodiscard]] const std::optional<Manifest>& manifest() const { return manifest_; }
  [[nodiscard]] bool finished() const { return manifest_ && manifest_->state.finished; }

 private:
  // Reads the job's identity, and checks whether the manifest belongs to the same output.
  void look_at(const StoredFile& file, const std::optional<Manifest>& there, StopFlag stop) {
    bool damaged = false;
    file.each_line(file.size(), stop, [&](std::string_view text, std::uint64_t /*number*/) {
      const std::string problem = finding_of([&] {
        const JournalLine line = parse_journal_line(text);
        if (const auto* const identity = std::get_if<JobIdentity>(&line)) {
          identity_ = *identity;
        }
      });
      damaged = damaged || !problem.empty();
    });
    if (!there || (identity_ && !same_job(*identity_, there->identity))) {
      return;
    }
    const JobState& state = there->state;
    if (damaged || file.sums(0, {state.journal_bytes}, stop) ==
                       std::vector<std::uint64_t>{state.journal_sum}) {
      manifest_ = there;
    }
  }

  void take(const JournalLine& line) {
    summary_.add(line);
    text_ += format_journal_line(line);
    if (std::holds_alternative<RetryRecord>(line)) {
      candidates_.clear();  // the errors of the previous pass are not kept
      take_retry(*summary_.before());
    } else if (std::holds_alternative<JobState>(line)) {
      take_state(*summary_.state());
    }
  }

  void take_retry(JobState state) {
    state.retrying = true;
    state.retries = summary_.retries();
    state.inputs = 0;
    state.names = NameHash().value();
    state.failed = 0;
    state.errors_bytes = 0;
    state.errors_sum = io::Digest().head();
    state.all_inputs = summary_.first()->inputs;
    state.all_names = summary_.first()->names;
    candidates_.push_back({state, text_.size()});
  }

  void take_state(JobState state) {
    if (state.retrying && state.open_rows == 0 && state.rows + state.failed == state.all_inputs) {
      state.inputs = state.all_inputs;
      state.names = state.all_names;
      state.retrying = false;
      state.finished = true;
    } else if (state.rows + state.failed != summary_.pass_rows() + state.inputs) {
      return;
    }
    candidates_.push_back({state, text_.size()});
  }

  void take_manifest(const Manifest& manifest) {
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
    count_good_files();
    const Candidate* const best = find_best();
    if (best == nullptr) {
      return std::nullopt;
    }
    RepairPlan plan;
    plan.manifest = {.identity = identity_, .state = best->state};
    plan.journal = journal_.text(best->journal_size);
    plan.manifest.state.journal_bytes = plan.journal.size();
    plan.manifest.state.journal_sum = io::Digest::head_of(plan.journal);
    plan.mends = std::move(mends_);
    return plan;
  }

 private:
  using Wanted = std::vector<const Candidate*>;

  void count_good_files() {
    for (const FileRecord& file : journal_.summary().files()) {
      const bool good =
          (problem_of_index(folder_, layout_, file, nullptr, stop_).empty() ||
           can_mend(layout_.index_file(file.number), "", file.index_bytes, file.index_sum)) &&
          (problem_of_data(folder_, layout_, file, nullptr, stop_).empty() ||
           can_mend(layout_.data_file(file.number), layout_.header(file.rows), file.data_bytes,
                    file.data_sum));
      if (!good) {
        return;
      }
      ++good_files_;
    }
  }

  [[nodiscard]] bool can_mend(const std::string& name, const std::string& header,
                              std::uint64_t bytes, std::uint64_t sum) {
    std::vector<std::uint64_t> sums;
    (void)finding_of([&] { sums = StoredFile(folder_, name).sums(header.size(), {bytes}, stop_); });
    if (sums != std::vector<std::uint64_t>{sum}) {
      return false;
    }
    mends_.push_back({.name = name, .bytes = bytes, .header = header});
    return true;
  }

  // States of `wanted` for which the file begins with the bytes that they count.
  [[nodiscard]] Wanted agreeing(const std::string& name, std::uint64_t from, const Wanted& wanted,
                                std::uint64_t JobState::* bytes,
                                std::uint64_t JobState::* sum) const {
    std::vector<std::uint64_t> ends;
    std::ranges::transform(wanted, std::back_inserter(ends),
                           [&](const Candidate* candidate) { return candidate->state.*bytes; });
    std::vector<std::uint64_t> sums;
    (void)finding_of([&] {
      sums =
          StoredFile(folder_, found_as(folder_, name, journal_.finished())).sums(from, ends, stop_);
    });
    Wanted good;
    for (std::size_t index = 0; index < sums.size(); ++index) {
      if (sums[index] == wanted[index]->state.*sum) {
        good.push_back(wanted[index]);
      }
    }
    return good;
  }

  [[nodiscard]] Wanted with_errors(const Wanted& wanted) const {
    Wanted good;
    Wanted counting;
    for (const Candidate* const candidate : wanted) {
      const JobState& state = candidate->state;
      if (state.finished) {
        const auto info = folder_.examine(kErrorsFile);
        if (!info || static_cast<std::uint64_t>(info->st_size) != state.errors_bytes) {
          continue;
        }
      }
      (state.errors_bytes == 0 ? good : counting).push_back(candidate);
    }
    std::ranges::copy(
        agreeing(kErrorsFile, 0, counting, &JobState::errors_bytes, &JobState::errors_sum),
        std::back_inserter(good));
    return good;
  }

  // The errors of a pass are lost when the next one begins, so only the last pass can be kept.
  [[nodiscard]] bool is_of_last_pass(const JobState& state) const {
    const std::optional<Manifest>& there = journal_.manifest();
    return there ? state.retries == there->state.retries
                 : state.retrying || state.finished || !folder_.has(kRetryingFile);
  }

  [[nodiscard]] bool has_retry_list(const JobState& state) const {
    const JournalSummary& summary = journal_.summary();
    const JobState* const before =
        summary.retries() == state.retries ? summary.before() : summary.state();
    return !state.retrying || (before != nullptr &&
                               finding_of([&] { prove_retried(folder_, *before, stop_); }).empty());
  }

  // Returns the last state that all files confirm.
  [[nodiscard]] const Candidate* find_best() const {
    Wanted wanted;
    for (const Candidate& candidate : journal_.candidates()) {
      if (candidate.state.shards <= good_files_ && is_of_last_pass(candidate.state)) {
        wanted.push_back(&candidate);
      }
    }
    wanted = with_errors(wanted);
    for (std::uint64_t number = good_files_ + 1; number-- > 0;) {
      Wanted growing;
      const Candidate* best = nullptr;
      for (const Candidate* const candidate : wanted) {
        if (candidate->state.shards == number) {
          if (candidate->state.open_rows == 0) {
            best = candidate;
          } else {
            growing.push_back(candidate);
          }
        }
      }
      growing = agreeing(layout_.data_file(number), layout_.header_bytes(), growing,
                         &JobState::open_bytes, &JobState::data_sum);
      if (layout_.has_index()) {
        growing = agreeing(layout_.index_file(number), 0, growing, &JobState::index_bytes,
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
  std::uint64_t good_files_ = 0;
  std::vector<RepairPlan::Mend> mends_;
};

}  // namespace

std::optional<RepairPlan> plan_repair(const io::Folder& folder,
                                      const std::optional<Manifest>& there, StopFlag stop) {
  const JournalReader journal(folder, there, stop);
  const std::optional<JobIdentity>& identity = journal.identity();
  return identity ? Planner(folder, journal, *identity, stop).plan() : std::nullopt;
}

void carry_out(const RepairPlan& plan, const std::shared_ptr<const io::Folder>& folder) {
  const OutputLayout layout(plan.manifest.identity);
  for (const RepairPlan::Mend& mend : plan.mends) {
    const io::Descriptor file = folder->open_to_write(mend.name, false);
    io::write_all_at(file.get(), std::as_bytes(std::span(mend.header)), 0, *folder / mend.name);
    if (::ftruncate(file.get(), static_cast<off_t>(mend.bytes)) != 0) {
      io::fail_with_errno(*folder / mend.name, "mend");
    }
    io::sync_file(file, *folder / mend.name);
  }
  if (plan.manifest.state.finished) {  // otherwise the job does so when it resumes
    for (const std::string& name : uncounted_files(*folder, layout, plan.manifest.state)) {
      folder->remove(name);
    }
  }
  // The job, resumed or finished, looks for the file here first.
  io::write_file_atomically(
      folder, plan.manifest.state.finished ? kJournalFile : partial(kJournalFile), plan.journal);
  io::write_file_atomically(folder, kManifestFile, format_manifest(plan.manifest));
}

}  // namespace fovea::pipeline
