// checksums.jsonl: the checksums of the files of an output, and the states that the job went
// through.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "pipeline/manifest.hpp"

namespace fovea::pipeline {

// Each line is a JSON object whose last key, "check", is a checksum over the line itself. The first
// line is the identity of the job. One line follows for each complete embeddings file, one for the
// state after every kStateInputs inputs, and one at the beginning of each --retry-failed.

/// The number of inputs between states. A state is written at the end of the batch that reaches it,
/// so that the states do not depend on interruptions.
inline constexpr std::uint64_t kStateInputs = 128;

/// A complete embeddings file and its index. The checksums are as in JobState.
struct FileRecord {
  std::uint64_t number = 0;
  std::uint64_t rows = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t data_sum = 0;
  std::uint64_t index_sum = 0;
};

/// The beginning of a pass over failed inputs, whose inputs are counted from 0 again.
struct RetryRecord {
  std::uint64_t number = 0;  // the first pass has number 1
};

/// A line. Of a JobState, only the progress of the pass: neither flags, all_* nor journal_*.
using JournalLine = std::variant<JobIdentity, FileRecord, JobState, RetryRecord>;

/// Returns the line, with a newline.
[[nodiscard]] std::string format_journal_line(const JournalLine& line);

/// Returns whether a line made by format_journal_line() is a JobState.
[[nodiscard]] bool is_state_line(std::string_view text);

/// Parses a line without its newline. Throws fovea::Error unless format_journal_line() would return
/// exactly these bytes.
[[nodiscard]] JournalLine parse_journal_line(std::string_view text);

}  // namespace fovea::pipeline
