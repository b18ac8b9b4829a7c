// Options that `fovea embed` and `fovea preprocess` share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/App.hpp>

#include "fovea/job.hpp"

namespace fovea::cli {

/// Options as text, which become numbers or enumerations later.
struct JobArguments {
  std::string shard = "0/1";
  std::string progress = "auto";
  bool quiet = false;
  bool strict = false;
  std::optional<std::uint64_t> max_errors;
  std::uint64_t decode_memory = 0;
};

/// Adds INPUT..., --null, --image-key, --shard, --decode-memory, --strict, --max-errors, --progress
/// and --quiet.
void add_job_options(CLI::App& command, InputOptions& input, JobArguments& arguments);

/// Reads what add_job_options left as text.
void apply_job_arguments(const JobArguments& arguments, InputOptions& input,
                         std::optional<std::uint64_t>& max_errors);

}  // namespace fovea::cli
