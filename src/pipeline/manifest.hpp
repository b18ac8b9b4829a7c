// manifest.json: the content of an output folder, the job that made it, and its progress.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "fovea/job.hpp"

namespace fovea::pipeline {

/// Shards that an output lacks, when it was merged from some of those of a job.
struct MissingShards {
  static constexpr std::size_t kMost = 4096;

  std::uint64_t count = 0;             // shards that the job had
  std::vector<std::uint64_t> numbers;  // at most kMost, in their order

  friend bool operator==(const MissingShards&, const MissingShards&) = default;
};

/// All parameters that determine the bytes of the output. Two runs may share a folder only when
/// these are equal.
struct JobIdentity {
  std::string model;           // as the user named it; not compared
  std::string working_folder;  // to which relative names refer; "" when unknown; not compared
  std::string model_sha256;    // model_fingerprint
  Preprocessing preprocessing;
  std::string preprocessing_sha256;
  std::string precision;  // "fp32", "bf16"
  std::int64_t dimension = 0;
  std::string features = {};  // which ones of the images, as a FeatureLayer; "": embeddings
  std::int64_t tokens = 0;    // of features of each patch, rows [tokens, dimension]; otherwise 0
  bool normalize = true;
  OutputDType dtype = OutputDType::kF32;
  OutputFormat format = OutputFormat::kNpy;
  std::uint64_t shard_rows = 0;
  std::uint64_t shard_index = 0;
  std::uint64_t shard_count = 1;
  MissingShards missing = {};  // not compared
};

/// A durable state. Files may hold more; rows beyond these lengths are computed again.
struct JobState {
  bool finished = false;
  bool retrying = false;      // --retry-failed is under way; `inputs` and `names` count its inputs
  std::uint64_t retries = 0;  // how often --retry-failed has begun
  std::uint64_t inputs = 0;   // done: each is a row or a line in errors.jsonl
  std::uint64_t names = 0;    // NameHash over their names
  std::uint64_t rows = 0;     // in all shards
  std::uint64_t failed = 0;   // lines in errors.jsonl
  std::uint64_t shards = 0;   // complete files of embeddings
  std::uint64_t lost_range = 0;  // of the rows, those whose image lost a part of its range
  // Files left out in the last complete pass over the inputs. Not in checksums.jsonl, because the
  // next run counts them again.
  FileCounts left_out;
  // The files that are being written. Sums are io::Digest::head() of these bytes, without the
  // header of an array; 0 when there is no such file.
  std::uint64_t open_rows = 0;
  std::uint64_t open_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t errors_bytes = 0;
  std::uint64_t data_sum = 0;
  std::uint64_t index_sum = 0;
  std::uint64_t errors_sum = 0;
  // The first pass over all inputs, kept while and after failed ones are tried again:
  std::uint64_t all_inputs = 0;
  std::uint64_t all_names = 0;
  // The length and sum of checksums.jsonl:
  std::uint64_t journal_bytes = 0;
  std::uint64_t journal_sum = 0;
};

/// The version that this program writes. Version 1 had no checksums, version 2 no counts of what
/// was left out.
inline constexpr int kManifestVersion = 3;
inline constexpr int kFirstSummedVersion = 2;
inline constexpr int kFirstCountingVersion = 3;

struct Manifest {
  JobIdentity identity;
  JobState state;
  std::optional<UpdateCounts> last_update = {};  // of those that changed something
  int version = kManifestVersion;
};

[[nodiscard]] std::string format_manifest(const Manifest& manifest);

/// Throws fovea::Error when format_manifest would not give exactly this text: keys, types, order,
/// spaces and the checksum are all compared.
[[nodiscard]] Manifest parse_manifest(std::string_view text);

/// The keys of manifest.json that identify the job.
void write_identity(nlohmann::ordered_json& json, const JobIdentity& identity);
/// Reads the keys that write_identity writes. Throws fovea::Error or an nlohmann exception.
[[nodiscard]] JobIdentity read_identity(const nlohmann::json& json);

/// Describes the differences between two jobs in sentences; empty when they are the same.
[[nodiscard]] std::vector<std::string> differences(const JobIdentity& there,
                                                   const JobIdentity& wanted);

[[nodiscard]] std::string_view to_string(OutputDType dtype);    // "f32", "f16"
[[nodiscard]] std::string_view to_string(OutputFormat format);  // "npy", "jsonl"

}  // namespace fovea::pipeline
