// Checking an output folder: whether all of it is as it was written, and mending what is not.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fovea {

struct CheckOptions {
  /// Output folder of an embed job, finished or not.
  std::filesystem::path output;
  /// Goes back to the last state of the job that is proven, so that the job can go on from there.
  bool repair = false;
  /// Ends the check with an fovea::Error when it becomes true.
  const std::atomic<bool>* stop = nullptr;
};

struct CheckReport {
  bool finished = false;
  bool has_checksums = true;  // outputs of format version 1 have none: their lengths were checked
  std::uint64_t inputs = 0;   // done, as the manifest says
  std::uint64_t rows = 0;
  std::uint64_t failed = 0;
  std::uint64_t files = 0;  // of embeddings, complete ones

  /// Sentences that name the file and say what is wrong with it; empty when nothing is. What was
  /// wrong before the repair, if there was one.
  std::vector<std::string> problems;

  /// With problems: whether some of the rows are proven, and the state of the job that a repair
  /// goes back to. Rows after it are computed again when the job goes on.
  bool can_repair = false;
  bool kept_finished = false;
  std::uint64_t kept_inputs = 0;
  std::uint64_t kept_rows = 0;
  bool repaired = false;
};

/// Reads every file of the output and compares it with its checksum and with the counts. With
/// `repair`, and problems, keeps every row before the first one that is not proven: it mends
/// headers of arrays in place, writes manifest.json and checksums.jsonl anew, and leaves the other
/// files to the embed job, which cuts them back and goes on. Where nothing is proven it changes
/// nothing. What was written before a --retry-failed began cannot be gone back to. Throws
/// fovea::Error when the folder cannot be read or holds no output, or while another run is writing
/// to it.
[[nodiscard]] CheckReport check_output(const CheckOptions& options);

}  // namespace fovea
