// Options for the inputs of a job and for the handling of failed inputs.
#include "cli/job_options.hpp"

#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "cli/options.hpp"
#include "fovea/error.hpp"

namespace fovea::cli {
namespace {

bool parse_shard(const std::string& text, InputOptions& input) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) {
    return false;
  }
  const auto parse = [](std::string_view digits, std::uint64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  return parse(std::string_view(text).substr(0, slash), input.shard_index) &&
         parse(std::string_view(text).substr(slash + 1), input.shard_count) &&
         input.shard_index < input.shard_count;
}

// Rejects a pattern with an unclosed bracket, which would match only a literal '['.
std::string check_brackets(const std::string& pattern) {
  for (std::size_t position = 0; position < pattern.size(); ++position) {
    if (pattern[position] == '\\') {
      ++position;
    } else if (pattern[position] == '[') {
      // A bracket as the first character is literal: []a] and [!]a].
      const bool is_negated = position + 1 < pattern.size() &&
                              (pattern[position + 1] == '!' || pattern[position + 1] == '^');
      const std::size_t first = position + (is_negated ? 2 : 1);
      const std::size_t end = pattern.find_first_of("]/", first + 1);
      if (end == std::string::npos || pattern[end] == '/' || pattern[first] == '/') {
        return fmt::format(
            "the [ in the pattern \"{}\" is not closed by a ]; for the character itself, write \\[",
            pattern);
      }
      position = end;
    }
  }
  return "";
}

}  // namespace

void add_job_options(CLI::App& command, InputOptions& input, JobArguments& arguments) {
  begin_group(command, kInputGroup);
  add_texts(command, "INPUT", input.inputs,
            "Image files, folders, archives (.tar, .tar.gz, ...), .jsonl, pixels .npy, @list.txt, "
            "or - for a list on the standard input; {00..99} and {a,b} expand");
  add_flag(command, "-0,--null", input.null_separated,
           "Names in lists end with NUL instead of a newline");
  add_text(command, "--image-key", "ENDINGS", input.image_key,
           "Archive members to take, by the part of the name after its first dot, such as "
           "\"jpg;png\" (default: all members with the extension of an image)");
  add_flag(command, "--hidden", input.hidden,
           "Also read hidden files, and folders of thumbnails and deleted files");
  const auto add_patterns = [&command](const char* name, std::vector<std::string>& patterns,
                                       const char* help) {
    add_repeated(command, name, "GLOB", patterns, help)->check(CLI::Validator(check_brackets, ""));
  };
  add_patterns("--exclude", input.exclude,
               "Leave out what matches the pattern, such as \"*.gif\", drafts/ or "
               "\"2019/**/raw\"; may be repeated");
  add_patterns("--include", input.include,
               "Take only files that match the pattern, or are in a folder that does; may be "
               "repeated");
  add_text(command, "--shard", "I/N", arguments.shard,
           "Take every N-th input, starting with number I < N")
      ->check([](const std::string& text) {
        InputOptions scratch;
        return parse_shard(text, scratch) ? "" : "expected I/N with I < N, such as 0/4";
      });
  add_size(command, "--decode-memory", arguments.decode_memory,
           "Memory for all images being decoded, such as 2G (0: half of the available "
           "memory, but at most 1 GiB or 64 MiB per decode thread)")
      ->group(kComputeGroup);
  add_max_pixels(command, input.max_pixels);
  add_flag(command, "--strict", arguments.strict, "Stop at the first input that fails");
  add_optional_integer(command, "--max-errors", {}, arguments.max_errors,
                       "Stop once more than this many inputs have failed")
      ->excludes("--strict");
  add_progress_options(command, arguments);
}

CLI::Option* add_update(CLI::App& command, EmbedOptions& embed) {
  begin_group(command, kOutputGroup);
  CLI::Option* update = add_flag(command, "--update", embed.update,
                                 "Bring OUT up to date: add rows of new photos, embed changed ones "
                                 "again (by size and date), drop rows of deleted ones");
  add_flag(command, "--checksum", embed.checksum,
           "Write the SHA-256 of every file into the index; with --update, compare files by it, so "
           "that renamed photos are not embedded again");
  add_optional_integer(command, "--max-drop", {}, embed.max_drop,
                       "Change nothing when --update would drop more rows than this")
      ->needs(update);
  return update;
}

void apply_job_arguments(const JobArguments& arguments, InputOptions& input,
                         std::optional<std::uint64_t>& max_errors) {
  parse_shard(arguments.shard, input);
  max_errors = arguments.strict ? std::optional<std::uint64_t>(0) : arguments.max_errors;
}

void check_output_option(const std::string& output, bool only_array) {
  try {
    check_output_name(output, only_array);
  } catch (const Error& error) {
    throw CLI::ValidationError("--output", error.what());
  }
}

}  // namespace fovea::cli
