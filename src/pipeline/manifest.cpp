// manifest.json written and read with nlohmann-json.
#include "pipeline/manifest.hpp"

#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::pipeline {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

std::uint64_t parse_hex(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) {
    fail("manifest: \"{}\" is no hash", io::escape(text));
  }
  return value;
}

std::string_view resample_name(Resample resample) {
  return resample == Resample::kBilinear ? "bilinear" : "bicubic";
}

template <typename Enum>
Enum parse_enum(const std::string& text, Enum first, Enum second) {
  if (text == to_string(first)) {
    return first;
  }
  if (text == to_string(second)) {
    return second;
  }
  fail("manifest: \"{}\" is unknown", io::escape(text));
}

}  // namespace

std::string_view to_string(OutputDType dtype) {
  return dtype == OutputDType::kF32 ? "f32" : "f16";
}

std::string_view to_string(OutputFormat format) {
  return format == OutputFormat::kNpy ? "npy" : "jsonl";
}

std::string format_manifest(const Manifest& manifest) {
  const JobIdentity& identity = manifest.identity;
  const JobState& state = manifest.state;
  const Preprocessing& p = identity.preprocessing;
  Json json;
  json["format_version"] = kFormatVersion;
  json["finished"] = state.finished;
  json["model"] = {{"name", io::escape(identity.model)}, {"sha256", identity.model_sha256}};
  json["preprocessing"] = {{"sha256", identity.preprocessing_sha256},
                           {"height", p.height},
                           {"width", p.width},
                           {"resample", resample_name(p.resample)},
                           {"rescale", p.rescale},
                           {"mean", p.mean},
                           {"std", p.std}};
  json["precision"] = identity.precision;
  json["dimension"] = identity.dimension;
  json["dtype"] = to_string(identity.dtype);
  json["normalize"] = identity.normalize;
  json["format"] = to_string(identity.format);
  json["shard_rows"] = identity.shard_rows;
  json["shard"] = {{"index", identity.shard_index}, {"count", identity.shard_count}};
  json["counts"] = {{"inputs", state.retrying ? state.all_inputs : state.inputs},
                    {"rows", state.rows},
                    {"failed", state.failed},
                    {"files", state.shards}};
  json["resume"] = {{"retrying", state.retrying},         {"inputs", state.inputs},
                    {"names", hex(state.names)},          {"open_rows", state.open_rows},
                    {"open_bytes", state.open_bytes},     {"index_bytes", state.index_bytes},
                    {"errors_bytes", state.errors_bytes}, {"all_inputs", state.all_inputs},
                    {"all_names", hex(state.all_names)}};
  return json.dump(2) + "\n";
}

Manifest parse_manifest(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    const int version = json.at("format_version").get<int>();
    if (version != kFormatVersion) {
      fail("manifest: format version {} is unknown, this program writes {}", version,
           kFormatVersion);
    }
    Manifest manifest;
    JobIdentity& identity = manifest.identity;
    identity.model = io::unescape(json.at("model").at("name").get<std::string>());
    identity.model_sha256 = json.at("model").at("sha256").get<std::string>();
    const Json& pixels = json.at("preprocessing");
    identity.preprocessing_sha256 = pixels.at("sha256").get<std::string>();
    identity.preprocessing.height = pixels.at("height").get<int>();
    identity.preprocessing.width = pixels.at("width").get<int>();
    identity.preprocessing.resample = pixels.at("resample").get<std::string>() == "bicubic"
                                          ? Resample::kBicubic
                                          : Resample::kBilinear;
    identity.preprocessing.rescale = pixels.at("rescale").get<float>();
    pixels.at("mean").get_to(identity.preprocessing.mean);
    pixels.at("std").get_to(identity.preprocessing.std);
    identity.precision = json.at("precision").get<std::string>();
    identity.dimension = json.at("dimension").get<std::int64_t>();
    identity.dtype =
        parse_enum(json.at("dtype").get<std::string>(), OutputDType::kF32, OutputDType::kF16);
    identity.normalize = json.at("normalize").get<bool>();
    identity.format =
        parse_enum(json.at("format").get<std::string>(), OutputFormat::kNpy, OutputFormat::kJsonl);
    identity.shard_rows = json.at("shard_rows").get<std::uint64_t>();
    identity.shard_index = json.at("shard").at("index").get<std::uint64_t>();
    identity.shard_count = json.at("shard").at("count").get<std::uint64_t>();
    JobState& state = manifest.state;
    state.finished = json.at("finished").get<bool>();
    const Json& counts = json.at("counts");
    state.rows = counts.at("rows").get<std::uint64_t>();
    state.failed = counts.at("failed").get<std::uint64_t>();
    state.shards = counts.at("files").get<std::uint64_t>();
    const Json& resume = json.at("resume");
    state.retrying = resume.at("retrying").get<bool>();
    state.inputs = resume.at("inputs").get<std::uint64_t>();
    state.names = parse_hex(resume.at("names").get<std::string>());
    state.open_rows = resume.at("open_rows").get<std::uint64_t>();
    state.open_bytes = resume.at("open_bytes").get<std::uint64_t>();
    state.index_bytes = resume.at("index_bytes").get<std::uint64_t>();
    state.errors_bytes = resume.at("errors_bytes").get<std::uint64_t>();
    state.all_inputs = resume.at("all_inputs").get<std::uint64_t>();
    state.all_names = parse_hex(resume.at("all_names").get<std::string>());
    return manifest;
  } catch (const Json::exception& error) {
    fail("manifest: {}", error.what());
  }
}

std::vector<std::string> differences(const JobIdentity& there, const JobIdentity& wanted) {
  std::vector<std::string> list;
  const auto compare = [&](std::string_view what, const auto& has, const auto& wants) {
    if (has != wants) {
      list.push_back(fmt::format("{} is {} there and {} now", what, has, wants));
    }
  };
  const auto yes_no = [](bool value) { return value ? "on" : "off"; };
  if (there.model_sha256 != wanted.model_sha256) {
    list.push_back(fmt::format("the model is {} (sha256 {:.12}) there and {} (sha256 {:.12}) now",
                               io::escape(there.model), there.model_sha256,
                               io::escape(wanted.model), wanted.model_sha256));
  }
  if (there.preprocessing_sha256 != wanted.preprocessing_sha256) {
    const auto describe = [](const JobIdentity& job) {
      const Preprocessing& p = job.preprocessing;
      return fmt::format("{}x{} {} (sha256 {:.12})", p.width, p.height, resample_name(p.resample),
                         job.preprocessing_sha256);
    };
    compare("the preprocessing", describe(there), describe(wanted));
  }
  compare("the precision", there.precision, wanted.precision);
  compare("the dimension", there.dimension, wanted.dimension);
  compare("normalisation", std::string_view(yes_no(there.normalize)),
          std::string_view(yes_no(wanted.normalize)));
  compare("the dtype", to_string(there.dtype), to_string(wanted.dtype));
  compare("the format", to_string(there.format), to_string(wanted.format));
  compare("the number of rows a file", there.shard_rows, wanted.shard_rows);
  compare("the shard", fmt::format("{}/{}", there.shard_index, there.shard_count),
          fmt::format("{}/{}", wanted.shard_index, wanted.shard_count));
  return list;
}

}  // namespace fovea::pipeline
