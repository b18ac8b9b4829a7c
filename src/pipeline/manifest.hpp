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

/// The shards that are missing in an output that was merged from an incomplete set of shards.
struct MissingShards {
  static constexpr std::size_t kMaxNumbers = 4096;

  std::uint64_t count = 0;             // the number of shards of the job
  std::vector<std::uint64_t> numbers;  // ascending; at most kMaxNumbers

  friend bool operator==(const MissingShards&, const MissingShards&) = default;
};

/// All parameters that determine the bytes of the output. Two runs may share a folder only when
/// they are equal, except for fields that are not compared.
struct JobIdentity {
  std::string model;           // as the user named it; not compared
  std::string working_folder;  // the base of relative names; "" when unknown; not compared
  std::string model_sha256;    // model_fingerprint() of the model
  Preprocessing preprocessing;
  std::string preprocessing_sha256;
  std::string precision;  // such as "fp32" or "bf16"
  std::int64_t dimension = 0;
  std::string features = {};  // the layer of features, as a FeatureLayer; "" for embeddings
  std::int64_t tokens = 0;    // per row of features of patches, [tokens, dimension]; otherwise 0
  bool normalize = true;
  OutputDType dtype = OutputDType::kF32;
  OutputFormat format = OutputFormat::kNpy;
  std::uint64_t shard_rows = 0;
  std::uint64_t shard_index = 0;
  std::uint64_t shard_count = 1;
  MissingShards missing = {};  // not compared
};

/// A state of a job that is stored durably. The files may be longer than it says; the rows beyond
/// are computed again.
struct JobState {
  bool finished = false;
  bool retrying = false;      // --retry-failed is in progress; `inputs` and `names` are of its pass
  std::uint64_t retries = 0;  // how often --retry-failed has begun
  std::uint64_t inputs = 0;   // processed inputs: each is a row or a line in errors.jsonl
  std::uint64_t names = 0;    // NameHash over the names of these inputs
  std::uint64_t rows = 0;     // in all embeddings files
  std::uint64_t failed = 0;   // lines in errors.jsonl
  std::uint64_t shards = 0;   // complete embeddings files
  std::uint64_t lost_range = 0;  // rows whose image lost a part of its range
  // Files that the last complete pass over the inputs left out. Not recorded in checksums.jsonl,
  // because the next run counts them again.
  FileCounts left_out;
  // The files that are being written. The checksums are io::Digest::head() of the counted bytes,
  // without the header of an array; 0 when there is no such file.
  std::uint64_t open_rows = 0;
  std::uint64_t open_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t errors_bytes = 0;
  std::uint64_t data_sum = 0;
  std::uint64_t index_sum = 0;
  std::uint64_t errors_sum = 0;
  // The result of the first pass, which covers all inputs; kept during and after retries.
  std::uint64_t all_inputs = 0;
  std::uint64_t all_names = 0;
  // The size and checksum of checksums.jsonl.
  std::uint64_t journal_bytes = 0;
  std::uint64_t journal_sum = 0;
};

/// The format version that this program writes. Version 1 had no checksums, version 2 no counts of
/// files that were left out.
inline constexpr int kManifestVersion = 3;
inline constexpr int kFirstSummedVersion = 2;
inline constexpr int kFirstCountingVersion = 3;

struct Manifest {
  JobIdentity identity;
  JobState state;
  std::optional<UpdateCounts> last_update = {};  // of the last update that changed the output
  int version = kManifestVersion;
};

[[nodiscard]] std::string format_manifest(const Manifest& manifest);

/// Parses a manifest. Throws fovea::Error unless format_manifest() would return exactly this text,
/// including the order of keys, the spacing and the checksum.
[[nodiscard]] Manifest parse_manifest(std::string_view text);

/// Writes the keys of manifest.json that identify the job.
void write_identity(nlohmann::ordered_json& json, const JobIdentity& identity);
/// Reads the keys that write_identity() writes. Throws fovea::Error or an nlohmann exception.
[[nodiscard]] JobIdentity read_identity(const nlohmann::json& json);

/// Describes the differences between the job of an existing output and the current one in
/// sentences; empty when they are the same.
[[nodiscard]] std::vector<std::string> differences(const JobIdentity& existing,
                                                   const JobIdentity& current);

[[nodiscard]] std::string_view to_string(OutputDType dtype);    // "f32", "f16"
[[nodiscard]] std::string_view to_string(OutputFormat format);  // "npy", "jsonl"

}  // namespace fovea::pipeline
