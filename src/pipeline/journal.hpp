// checksums.jsonl: what the files of an output must hold, and the states that the job went through.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "pipeline/manifest.hpp"

namespace fovea::pipeline {

// Each line is a JSON object whose last key, "check", is a checksum over the line itself. The file
// begins with the job; then it grows by a line for every file of embeddings that is complete, a
// state for every kStateInputs inputs, and a line where --retry-failed begins.

/// States are written at the end of the batch in which so many inputs since the last one are done,
/// so that they come out the same however often the job was interrupted.
inline constexpr std::uint64_t kStateInputs = 128;

/// A complete file of embeddings and its index. Sums as in JobState.
struct FileRecord {
  std::uint64_t number = 0;
  std::uint64_t rows = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t data_sum = 0;
  std::uint64_t index_sum = 0;
};

/// The beginning of a pass over failed inputs, which count from 0 again.
struct RetryRecord {
  std::uint64_t number = 0;  // from 1
};

/// Of a JobState only what the pass has done: not its flags, all_* and journal_*.
using JournalLine = std::variant<JobIdentity, FileRecord, JobState, RetryRecord>;

/// With a newline.
[[nodiscard]] std::string format_journal_line(const JournalLine& line);

/// Whether a line, if it is one of ours, is a JobState.
[[nodiscard]] bool is_state_line(std::string_view text);

/// Without its newline. Throws fovea::Error when it is not, byte for byte, what format_journal_line
/// made of some line.
[[nodiscard]] JournalLine parse_journal_line(std::string_view text);

}  // namespace fovea::pipeline
