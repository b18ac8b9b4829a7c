// Verifies the files of an output against its manifest and its checksums.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/stop.hpp"
#include "io/digest.hpp"
#include "io/folder.hpp"
#include "pipeline/journal.hpp"
#include "pipeline/manifest.hpp"
#include "pipeline/output_files.hpp"
#include "pipeline/output_lock.hpp"

namespace fovea::pipeline {

/// The content of checksums.jsonl up to a byte position.
class JournalSummary {
 public:
  /// Throws fovea::Error when the line cannot follow those before it.
  void add(const JournalLine& line);

  /// Null before the first line.
  [[nodiscard]] const JobIdentity* identity() const { return identity_ ? &*identity_ : nullptr; }
  [[nodiscard]] const std::vector<FileRecord>& files() const { return files_; }
  /// The rows in all `files`, and in those from before the current pass.
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t pass_rows() const { return pass_rows_; }
  [[nodiscard]] std::uint64_t retries() const { return retries_; }
  /// The last state of the current pass, the state at the end of the pass before it, and that at
  /// the end of the first pass; null when there is none.
  [[nodiscard]] const JobState* state() const { return state_ ? &*state_ : nullptr; }
  [[nodiscard]] const JobState* before() const { return before_ ? &*before_ : nullptr; }
  [[nodiscard]] const JobState* first() const { return first_ ? &*first_ : nullptr; }

 private:
  std::optional<JobIdentity> identity_;
  std::vector<FileRecord> files_;
  std::uint64_t rows_ = 0;
  std::uint64_t pass_rows_ = 0;
  std::uint64_t retries_ = 0;
  std::optional<JobState> state_;
  std::optional<JobState> before_;
  std::optional<JobState> first_;
};

/// The files of an earlier run, from which a later one resumes.
struct Proof {
  // The sums over the parts of growing files that are kept.
  io::Digest data;
  io::Digest index;
  io::Digest errors;
  io::Digest journal;
  JournalSummary summary;
};

/// Reads the files that `manifest` (of format version 2, with at least one input done) counts, and
/// compares them. Complete files that `lock` knows, unless it is null, are not read. Throws
/// Interrupted when `stop` is set. The first disagreement is thrown as fovea::Error; or, unless
/// `problems` is null, all of them are added to it, and then the result is not usable.
[[nodiscard]] Proof prove(const io::Folder& folder, const Manifest& manifest, OutputLock* lock,
                          StopFlag stop, std::vector<std::string>* problems = nullptr);

/// Verifies a finished output of format version 1, which has no checksums, by lengths and counts.
/// Throws the first disagreement.
void prove_unsummed(const io::Folder& folder, const Manifest& manifest, StopFlag stop);

/// Describes the error in a complete embeddings file or in its index; empty when they are correct.
[[nodiscard]] std::string problem_of_data(const io::Folder& folder, const OutputLayout& layout,
                                          const FileRecord& file, OutputLock* lock, StopFlag stop);
[[nodiscard]] std::string problem_of_index(const io::Folder& folder, const OutputLayout& layout,
                                           const FileRecord& file, OutputLock* lock, StopFlag stop);

/// Throws when the counts of a manifest contradict themselves or its checksums.
void prove_counts(const Manifest& manifest, const JournalSummary& summary);

/// Throws when something is wrong with the list of inputs that a retry tries again; `before`: the
/// state at the end of the pass before it.
void prove_retried(const io::Folder& folder, const JobState& before, StopFlag stop);

/// The names of embeddings files and indexes in the folder that the state does not count.
[[nodiscard]] std::vector<std::string> uncounted_files(const io::Folder& folder,
                                                       const OutputLayout& layout,
                                                       const JobState& state);

/// The message of the fovea::Error that `body` throws, or "". ResourceError and Interrupted are not
/// findings and are passed on.
template <typename Body>
[[nodiscard]] std::string finding_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    return error.what();
  }
  return {};
}

}  // namespace fovea::pipeline
