// Options that `fovea embed` and `fovea preprocess` share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/App.hpp>

#include "cli/progress_line.hpp"
#include "fovea/job.hpp"

namespace fovea::cli {

/// Options that are stored as text until apply_job_arguments() parses them.
struct JobArguments : ProgressArguments {
  std::string shard = "0/1";
  bool strict = false;
  std::optional<std::uint64_t> max_errors;
  std::uint64_t decode_memory = 0;
};

/// Adds INPUT..., --null, --image-key, --hidden, --exclude, --include, --shard, --decode-memory,
/// --max-pixels, --strict, --max-errors, --progress and --quiet.
void add_job_options(CLI::App& command, InputOptions& input, JobArguments& arguments);

/// Adds --update, --checksum and --max-drop; returns --update.
CLI::Option* add_update(CLI::App& command, EmbedOptions& embed);

/// Parses the options that add_job_options() stores as text.
void apply_job_arguments(const JobArguments& arguments, InputOptions& input,
                         std::optional<std::uint64_t>& max_errors);

/// Calls fovea::check_output_name(), and throws its error as a CLI::ValidationError.
void check_output_option(const std::string& output, bool only_array);

}  // namespace fovea::cli
