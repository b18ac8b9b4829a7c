// checksums.jsonl: the checksums of the files of an output, and the states that the job went
// through.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "pipeline/manifest.hpp"

namespace fovea::pipeline {

// Each line is a JSON object whose last key, "check", is a checksum over the line itself. The file
// begins with the job; then it grows by a line per complete embeddings file, a state per
// kStateInputs inputs, and a line where --retry-failed begins.

/// A state is written at the end of the batch in which this many inputs since the last state are
/// done, so that states do not depend on interruptions.
inline constexpr std::uint64_t kStateInputs = 128;

/// A complete embeddings file and its index. Sums are as in JobState.
struct FileRecord {
  std::uint64_t number = 0;
  std::uint64_t rows = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t data_sum = 0;
  std::uint64_t index_sum = 0;
};

/// The beginning of a pass over failed inputs, which are counted from 0 again.
struct RetryRecord {
  std::uint64_t number = 0;  // from 1
};

/// A JobState without its flags, all_* and journal_*: only the progress of the pass.
using JournalLine = std::variant<JobIdentity, FileRecord, JobState, RetryRecord>;

/// The line, with a newline.
[[nodiscard]] std::string format_journal_line(const JournalLine& line);

/// Whether a line written by format_journal_line is a JobState.
[[nodiscard]] bool is_state_line(std::string_view text);

/// Parses a line without its newline. Throws fovea::Error when format_journal_line would not give
/// exactly these bytes.
[[nodiscard]] JournalLine parse_journal_line(std::string_view text);

}  // namespace fovea::pipeline
