// Checks whether an output folder is as it was written, and repairs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] fovea {

struct CheckOptions {
  /// Output folder of an embed job, finished or not.
  std::filesystem::path output;
  /// Restores the last state of the job that checksums verify, so that the job can resume from it.
  bool repair = false;
  /// The check ends with a fovea::Error when this becomes true.
  const std::atomic<bool>* stop = nullptr;
};

struct CheckReport {
  bool finished = false;
  bool has_checksums = true;  // outputs of format version 1 have none: their lengths were checked
  std::uint64_t inputs = 0;   // inputs done, as the manifest says
  std::uint64_t rows = 0;
  std::uint64_t failed = 0;  // failed inputs
  std::uint64_t files = 0;   // complete embeddings files
  std::string missing;       // "shard 3/8 is missing" for a partial merge; otherwise ""

  /// Sentences that name a file and say what is wrong with it; empty when nothing is wrong. After a
  /// repair they describe the state before it.
  std::vector<std::string> problems;

  /// When there are problems: whether some rows are verified, and the state that a repair restores.
  /// Rows after it are computed again when the job resumes.
  bool can_repair = false;
  bool kept_finished = false;
  std::uint64_t kept_inputs = 0;
  std::uint64_t kept_rows = 0;
  bool repaired = false;
};

/// Reads every file of the output and compares it with its checksum and with the counts. With
/// `repair`, and when there are problems, it keeps every row before the first one that is not
/// verified: it corrects headers of arrays in place, rewrites manifest.json and checksums.jsonl,
/// and leaves the other files to the embed job, which truncates them and resumes. It changes
/// nothing when nothing is verified. It cannot go back to a state before a --retry-failed began.
/// Throws fovea::Error when the folder cannot be read or holds no output, or while another run is
/// writing to it.
[[nodiscard]] CheckReport check_output(const CheckOptions& options);

}  // namespace fovea
