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

/// A summary of the first lines of checksums.jsonl.
class JournalSummary {
 public:
  /// Adds the next line. Throws fovea::Error when it contradicts the lines before it.
  void add(const JournalLine& line);

  /// Returns the identity of the job; null before the first line.
  [[nodiscard]] const JobIdentity* identity() const { return identity_ ? &*identity_ : nullptr; }
  [[nodiscard]] const std::vector<FileRecord>& files() const { return files_; }
  /// Returns the number of rows in all `files`.
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  /// Returns the number of rows in the files that existed when the current pass began.
  [[nodiscard]] std::uint64_t rows_before_pass() const { return rows_before_pass_; }
  [[nodiscard]] std::uint64_t retries() const { return retries_; }
  /// Returns the last state of the current pass; null when it has none.
  [[nodiscard]] const JobState* state() const { return state_ ? &*state_ : nullptr; }
  /// Returns the state at the end of the previous pass; null in the first pass.
  [[nodiscard]] const JobState* previous_pass() const {
    return previous_pass_ ? &*previous_pass_ : nullptr;
  }
  /// Returns the state at the end of the first pass; null during the first pass.
  [[nodiscard]] const JobState* first_pass() const { return first_pass_ ? &*first_pass_ : nullptr; }

 private:
  std::optional<JobIdentity> identity_;
  std::vector<FileRecord> files_;
  std::uint64_t rows_ = 0;
  std::uint64_t rows_before_pass_ = 0;
  std::uint64_t retries_ = 0;
  std::optional<JobState> state_;
  std::optional<JobState> previous_pass_;
  std::optional<JobState> first_pass_;
};

/// The verified content of the files from which a run resumes.
struct Proof {
  // The checksums over the parts of unfinished files that are kept.
  io::Digest data;
  io::Digest index;
  io::Digest errors;
  io::Digest journal;
  JournalSummary summary;
};

/// Verifies the files that `manifest` counts. It must have format version 2 or later and at least
/// one processed input. Complete files that are recorded in `lock`, unless that is null, are not
/// read. Throws fovea::Error for the first mismatch; Interrupted when `stop` is set. Unless
/// `problems` is null, all mismatches are added to it instead, and the result must not be used.
[[nodiscard]] Proof prove(const io::Folder& folder, const Manifest& manifest, OutputLock* lock,
                          StopFlag stop, std::vector<std::string>* problems = nullptr);

/// Verifies a finished output of format version 1, which has no checksums, by sizes and counts.
/// Throws fovea::Error for the first mismatch.
void prove_unsummed(const io::Folder& folder, const Manifest& manifest, StopFlag stop);

/// Describes what is wrong with a complete embeddings file or its index; empty when it is valid.
[[nodiscard]] std::string data_problem(const io::Folder& folder, const OutputLayout& layout,
                                       const FileRecord& file, OutputLock* lock, StopFlag stop);
[[nodiscard]] std::string index_problem(const io::Folder& folder, const OutputLayout& layout,
                                        const FileRecord& file, OutputLock* lock, StopFlag stop);

/// Throws fovea::Error when the counts of a manifest contradict each other or the journal.
void prove_counts(const Manifest& manifest, const JournalSummary& summary);

/// Verifies the list of inputs that a retry tries again. `previous_pass`: the state at the end of
/// the pass that wrote the list. Throws fovea::Error when it is damaged.
void prove_retry_list(const io::Folder& folder, const JobState& previous_pass, StopFlag stop);

/// Returns the names of embeddings files and indexes in the folder that the state does not count.
[[nodiscard]] std::vector<std::string> uncounted_files(const io::Folder& folder,
                                                       const OutputLayout& layout,
                                                       const JobState& state);

/// Returns the message of the fovea::Error that `body` throws, or "". ResourceError and Interrupted
/// are not findings, so they are not caught.
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
