// Formats and parses manifest.json with nlohmann-json.
#include "pipeline/manifest.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/digest.hpp"
#include "io/json.hpp"
#include "io/text.hpp"
#include "pipeline/json_fields.hpp"

namespace fovea::pipeline {
namespace {

using ManifestJson = nlohmann::ordered_json;

std::string_view resample_name(Resample resample) {
  return resample == Resample::kBilinear ? "bilinear" : "bicubic";
}

template <typename Enum>
Enum read_enum(const nlohmann::json& object, const char* key, Enum first, Enum second) {
  const std::string& text = read_text(object, key);
  if (text == to_string(first)) {
    return first;
  }
  if (text == to_string(second)) {
    return second;
  }
  fail("\"{}\" is neither \"{}\" nor \"{}\"", key, to_string(first), to_string(second));
}

float to_float(const nlohmann::json& value, const char* key) {
  constexpr double kMaxValue = 1e30;
  if (!value.is_number() || !(std::abs(value.get<double>()) < kMaxValue)) {
    fail("\"{}\" is not a number of plausible magnitude", key);
  }
  return value.get<float>();
}

void read_channels(const nlohmann::json& object, const char* key, std::array<float, 3>& channels) {
  const nlohmann::json& list = read_value(object, key);
  if (!list.is_array() || list.size() != channels.size()) {
    fail("\"{}\" is not a list of {} numbers", key, channels.size());
  }
  std::ranges::transform(list, channels.begin(),
                         [&](const nlohmann::json& value) { return to_float(value, key); });
}

MissingShards read_missing(const nlohmann::json& shard) {
  MissingShards missing{.count = read_count(shard, "merged_from"), .numbers = {}};
  const nlohmann::json& list = read_value(shard, "missing");
  if (!list.is_array() || list.empty() || list.size() > MissingShards::kMaxNumbers) {
    fail("\"missing\" is not a list of 1 to {} shards", MissingShards::kMaxNumbers);
  }
  for (const nlohmann::json& number : list) {
    const bool is_valid =
        number.is_number_unsigned() && number.get<std::uint64_t>() < missing.count &&
        (missing.numbers.empty() || missing.numbers.back() < number.get<std::uint64_t>());
    if (!is_valid) {
      fail("\"missing\" is not an ascending list of shards of {}", missing.count);
    }
    missing.numbers.push_back(number);
  }
  return missing;
}

// Returns the number of the first line that differs, counted from 1.
std::size_t first_different_line(std::string_view a, std::string_view b) {
  const auto [difference, unused] = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(std::ranges::count(a.begin(), difference, '\n')) + 1;
}

// The functions below pass the fields of a part of the manifest to a FieldWriter or a FieldReader.
void visit_counts(const auto& json, auto& state) {
  json.count("rows", state.rows);
  json.count("failed", state.failed);
  json.count("files", state.shards);
  json.count_if_any("lost_range", state.lost_range);
}

void visit_update(const auto& json, auto& counts) {
  json.count("added", counts.added);
  json.count("reembedded", counts.reembedded);
  json.count("dropped", counts.dropped);
  json.count("unchanged", counts.unchanged);
  json.count("not_computed", counts.not_computed);
}

void visit_resume(const auto& json, auto& state, int version) {
  json.flag("retrying", state.retrying);
  json.count("inputs", state.inputs);
  json.hash("names", state.names);
  json.count("open_rows", state.open_rows);
  json.count("open_bytes", state.open_bytes);
  json.count("index_bytes", state.index_bytes);
  json.count("errors_bytes", state.errors_bytes);
  json.count("all_inputs", state.all_inputs);
  json.hash("all_names", state.all_names);
  if (version >= kFirstSummedVersion) {
    json.count("retries", state.retries);
    json.hash("data_sum", state.data_sum);
    json.hash("index_sum", state.index_sum);
    json.hash("errors_sum", state.errors_sum);
    json.count("checksums_bytes", state.journal_bytes);
    json.hash("checksums_sum", state.journal_sum);
  }
}

ManifestJson manifest_json(const Manifest& manifest) {
  const JobState& state = manifest.state;
  ManifestJson json;
  json["format_version"] = manifest.version;
  json["finished"] = state.finished;
  write_identity(json, manifest.identity);
  json["counts"]["inputs"] = state.retrying ? state.all_inputs : state.inputs;
  visit_counts(FieldWriter(json["counts"]), state);
  if (manifest.version >= kFirstCountingVersion) {
    json["left_out"] = state.left_out;
  }
  if (manifest.last_update) {
    visit_update(FieldWriter(json["last_update"]), *manifest.last_update);
  }
  visit_resume(FieldWriter(json["resume"]), state, manifest.version);
  return json;
}

Manifest read_manifest(const nlohmann::json& json) {
  Manifest manifest;
  manifest.version =
      static_cast<int>(read_count(json, "format_version", static_cast<std::uint64_t>(INT_MAX)));
  if (manifest.version < 1 || manifest.version > kManifestVersion) {
    fail("format version {} is unknown; this program reads 1 to {}", manifest.version,
         kManifestVersion);
  }
  manifest.identity = read_identity(json);
  manifest.state.finished = read_flag(json, "finished");
  visit_counts(FieldReader(read_object(json, "counts")), manifest.state);
  if (manifest.version >= kFirstCountingVersion) {
    const nlohmann::json& left_out = read_object(json, "left_out");
    for (const auto& [kind, count] : left_out.items()) {
      manifest.state.left_out[kind] = read_count(left_out, kind.c_str());
    }
  }
  if (json.contains("last_update")) {
    visit_update(FieldReader(read_object(json, "last_update")), manifest.last_update.emplace());
  }
  visit_resume(FieldReader(read_object(json, "resume")), manifest.state, manifest.version);
  return manifest;
}

}  // namespace

std::string_view to_string(OutputDType dtype) {
  return dtype == OutputDType::kF32 ? "f32" : "f16";
}

std::string_view to_string(OutputFormat format) {
  return format == OutputFormat::kNpy ? "npy" : "jsonl";
}

void write_identity(ManifestJson& json, const JobIdentity& identity) {
  const Preprocessing& p = identity.preprocessing;
  json["model"] = {{"name", io::escape(identity.model)}, {"sha256", identity.model_sha256}};
  if (!identity.working_folder.empty()) {  // older versions of Fovea did not record it
    json["working_folder"] = io::escape(identity.working_folder);
  }
  json["preprocessing"] = {{"sha256", identity.preprocessing_sha256},
                           {"height", p.height},
                           {"width", p.width},
                           {"resample", resample_name(p.resample)},
                           {"rescale", p.rescale},
                           {"mean", p.mean},
                           {"std", p.std}};
  if (p.keeps_proportions()) {
    json["preprocessing"]["patch"] = p.patch;
    json["preprocessing"]["max_patches"] = p.max_patches;
  }
  json["precision"] = identity.precision;
  json["dimension"] = identity.dimension;
  if (!identity.features.empty()) {
    json["features"]["layer"] = identity.features;
    if (identity.tokens > 0) {
      json["features"]["tokens"] = identity.tokens;
    }
  }
  json["dtype"] = to_string(identity.dtype);
  json["normalize"] = identity.normalize;
  json["format"] = to_string(identity.format);
  json["shard_rows"] = identity.shard_rows;
  json["shard"] = {{"index", identity.shard_index}, {"count", identity.shard_count}};
  if (!identity.missing.numbers.empty()) {
    json["shard"]["merged_from"] = identity.missing.count;
    json["shard"]["missing"] = identity.missing.numbers;
  }
}

JobIdentity read_identity(const nlohmann::json& json) {
  constexpr auto kMaxSide = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  constexpr std::uint64_t kMaxDimension = std::uint64_t{1} << 32;
  constexpr std::uint64_t kMaxTokens = std::uint64_t{1} << 24;
  JobIdentity identity;
  const nlohmann::json& model = read_object(json, "model");
  identity.model = io::unescape(read_text(model, "name"));
  identity.model_sha256 = read_text(model, "sha256");
  if (json.contains("working_folder")) {
    identity.working_folder = io::unescape(read_text(json, "working_folder"));
  }
  const nlohmann::json& pixels = read_object(json, "preprocessing");
  Preprocessing& p = identity.preprocessing;
  identity.preprocessing_sha256 = read_text(pixels, "sha256");
  p.height = static_cast<int>(read_count(pixels, "height", kMaxSide));
  p.width = static_cast<int>(read_count(pixels, "width", kMaxSide));
  p.resample = read_text(pixels, "resample") == resample_name(Resample::kBicubic)
                   ? Resample::kBicubic
                   : Resample::kBilinear;
  p.rescale = to_float(read_value(pixels, "rescale"), "rescale");
  read_channels(pixels, "mean", p.mean);
  read_channels(pixels, "std", p.std);
  if (pixels.contains("max_patches")) {
    p.patch = static_cast<int>(read_count(pixels, "patch", kMaxSide));
    p.max_patches = static_cast<int>(read_count(pixels, "max_patches", kMaxSide));
  }
  identity.precision = read_text(json, "precision");
  identity.dimension = static_cast<std::int64_t>(read_count(json, "dimension", kMaxDimension));
  if (json.contains("features")) {
    const nlohmann::json& features = read_object(json, "features");
    identity.features = read_text(features, "layer");
    if (features.contains("tokens")) {
      identity.tokens = static_cast<std::int64_t>(read_count(features, "tokens", kMaxTokens));
    }
    if (identity.features.empty() || features.contains("tokens") != (identity.tokens > 0)) {
      fail("\"features\" lacks its layer, or the number of tokens is 0");
    }
  }
  identity.dtype = read_enum(json, "dtype", OutputDType::kF32, OutputDType::kF16);
  identity.normalize = read_flag(json, "normalize");
  identity.format = read_enum(json, "format", OutputFormat::kNpy, OutputFormat::kJsonl);
  identity.shard_rows = read_count(json, "shard_rows");
  const nlohmann::json& shard = read_object(json, "shard");
  identity.shard_index = read_count(shard, "index");
  identity.shard_count = read_count(shard, "count");
  if (identity.shard_index >= identity.shard_count) {
    fail("invalid shard {} of {}", identity.shard_index, identity.shard_count);
  }
  if (shard.contains("missing")) {
    identity.missing = read_missing(shard);
  }
  if (identity.dimension == 0 || identity.shard_rows == 0) {
    fail("\"dimension\" and \"shard_rows\" must be at least 1");
  }
  return identity;
}

std::string format_manifest(const Manifest& manifest) {
  constexpr int kIndent = 2;
  ManifestJson json = manifest_json(manifest);
  if (manifest.version >= kFirstSummedVersion) {
    json["check"] = format_hash(io::Digest::sha256_head(json.dump(kIndent)));
  }
  return json.dump(kIndent) + "\n";
}

Manifest parse_manifest(std::string_view text) {
  const Manifest manifest = read_manifest(io::parse_json_object(text, "its text"));
  // Formatting the manifest again must give the same bytes. This proves that it has no unknown,
  // repeated or reformatted keys, and that its checksum matches.
  const std::string expected = format_manifest(manifest);
  if (text != expected) {
    fail("the file was altered after it was written: its checksum or its line {} does not match",
         first_different_line(text, expected));
  }
  return manifest;
}

std::vector<std::string> differences(const JobIdentity& existing, const JobIdentity& current) {
  std::vector<std::string> list;
  const auto compare = [&](std::string_view property, const auto& there, const auto& now) {
    if (there != now) {
      list.push_back(fmt::format("{} is {} there and {} now", property, there, now));
    }
  };
  const auto on_off = [](bool value) { return value ? "on" : "off"; };
  if (existing.model_sha256 != current.model_sha256) {
    list.push_back(fmt::format("the model is {} (sha256 {:.12}) there and {} (sha256 {:.12}) now",
                               io::escape(existing.model), existing.model_sha256,
                               io::escape(current.model), current.model_sha256));
  }
  if (existing.preprocessing_sha256 != current.preprocessing_sha256) {
    const auto describe = [](const JobIdentity& job) {
      const Preprocessing& p = job.preprocessing;
      const std::string size = p.keeps_proportions() ? fmt::format("up to {} patches of {}x{}",
                                                                   p.max_patches, p.patch, p.patch)
                                                     : fmt::format("{}x{}", p.width, p.height);
      return fmt::format("{} {} (sha256 {:.12})", size, resample_name(p.resample),
                         job.preprocessing_sha256);
    };
    compare("the preprocessing", describe(existing), describe(current));
  }
  compare("the precision", existing.precision, current.precision);
  compare("the dimension", existing.dimension, current.dimension);
  const auto row_content = [](const JobIdentity& job) {
    return job.features.empty() ? std::string("embeddings")
                                : fmt::format("features \"{}\"", io::escape(job.features));
  };
  compare("the content of rows", row_content(existing), row_content(current));
  compare("the number of tokens", existing.tokens, current.tokens);
  compare("normalisation", std::string_view(on_off(existing.normalize)),
          std::string_view(on_off(current.normalize)));
  compare("the dtype", to_string(existing.dtype), to_string(current.dtype));
  compare("the format", to_string(existing.format), to_string(current.format));
  compare("the number of rows per file", existing.shard_rows, current.shard_rows);
  compare("the shard", fmt::format("{}/{}", existing.shard_index, existing.shard_count),
          fmt::format("{}/{}", current.shard_index, current.shard_count));
  return list;
}

}  // namespace fovea::pipeline
