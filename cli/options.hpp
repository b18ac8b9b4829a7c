// Options that several commands share, each defined once: names, values, range and help.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/App.hpp>

#include "cli/outputs.hpp"
#include "fovea/precision.hpp"
#include "fovea/text.hpp"

namespace fovea::cli {

/// The groups of options in help.
inline constexpr const char* kInputGroup = "Input";
inline constexpr const char* kOutputGroup = "Output";
inline constexpr const char* kComputeGroup = "Compute";
inline constexpr const char* kOptionsGroup = "Options";
inline constexpr const char* kReportGroup = "Report";

/// Makes `group` the default group for options that are added to the command, or to its
/// subcommands, from now on. The shared options below set their own groups.
void begin_group(CLI::App& command, const char* group);

/// Maximum number of threads; a larger number is probably a typing error.
inline constexpr std::int64_t kMaxThreads = 1024;

/// The range of an integer option; by default without a maximum.
struct IntegerRange {
  static constexpr std::int64_t kNoLimit = INT64_MAX;
  std::int64_t min = 0;
  std::int64_t max = kNoLimit;
};

// Functions that add options by type, so that CLI11's templates are only instantiated in
// options.cpp. `names` is as for CLI11 ("-k,--neighbours"); a name without dashes is a positional.
// `value` is the placeholder in help ("FILE", "COSINE"). Items of lists are separated by commas.
CLI::Option* add_flag(CLI::App& command, const char* names, bool& variable, const char* help);
CLI::Option* add_text(CLI::App& command, const char* names, const char* value,
                      std::string& variable, const char* help);
/// Adds a positional that may be repeated, or an option with several values.
CLI::Option* add_texts(CLI::App& command, const char* name, std::vector<std::string>& variable,
                       const char* help);
/// Adds an option that may be repeated, with one value each time.
CLI::Option* add_repeated(CLI::App& command, const char* name, const char* value,
                          std::vector<std::string>& variable, const char* help);
/// Adds an option whose value is one of `choices`, case-insensitive; help lists all of them.
CLI::Option* add_choice(CLI::App& command, const char* names,
                        const std::vector<std::string>& choices, std::string& variable,
                        const char* help);
CLI::Option* add_choices(CLI::App& command, const char* names,
                         const std::vector<std::string>& choices,
                         std::vector<std::string>& variable, const char* help);
CLI::Option* add_integer(CLI::App& command, const char* names, IntegerRange range, int& variable,
                         const char* help);
CLI::Option* add_integer(CLI::App& command, const char* names, IntegerRange range,
                         std::int64_t& variable, const char* help);
CLI::Option* add_integer(CLI::App& command, const char* names, IntegerRange range,
                         std::uint64_t& variable, const char* help);
CLI::Option* add_optional_integer(CLI::App& command, const char* names, IntegerRange range,
                                  std::optional<std::uint64_t>& variable, const char* help);
CLI::Option* add_integers(CLI::App& command, const char* names, IntegerRange range,
                          std::vector<std::int64_t>& variable, const char* help);
/// Adds an option whose value is a number of bytes, such as "512M" or "2 GiB"; units are powers of
/// 1024.
CLI::Option* add_size(CLI::App& command, const char* names, std::uint64_t& variable,
                      const char* help);
/// The range of a real option: from `min`, which is excluded with `exclusive_min`, to `max`.
struct RealRange {
  double min;
  double max;
  bool exclusive_min = false;
};
CLI::Option* add_real(CLI::App& command, const char* names, const char* value, RealRange range,
                      double& variable, const char* help);

/// Adds a text option that names an output of the given kind.
CLI::Option* add_output_text(CLI::App& command, const char* names, const char* value,
                             std::string& variable, OutputKind kind, const char* help);

// Options that several commands share.
CLI::Option* add_output(CLI::App& command, std::string& output, OutputKind kind, const char* value,
                        const char* help);
/// Adds --trace, for commands that run a schedule on the emulator.
CLI::Option* add_trace(CLI::App& command, std::string& file);
CLI::Option* add_device(CLI::App& command, std::string& device,
                        const char* help = "Device to compute on; auto uses a GPU if there is one");
/// Adds --batch-size; 0: chosen for the device.
CLI::Option* add_batch_size(CLI::App& command, int& images);
/// Adds --batch-size with one or several values; no FOVEA_ variable sets it.
CLI::Option* add_batch_sizes(CLI::App& command, std::vector<std::int64_t>& images);
CLI::Option* add_precision(CLI::App& command, Precision& precision);
/// Adds --precision with one or several of `choices`. No FOVEA_ variable sets it, because the
/// precisions are what the run compares.
CLI::Option* add_precisions(CLI::App& command, const std::vector<std::string>& choices,
                            std::vector<Precision>& precisions);
/// Returns the names of the precisions that need calibration: "int8 and fp8".
[[nodiscard]] std::string calibrated_precisions(std::string_view conjunction);
/// Adds --calibration, the folder with the model's calibrations for these precisions.
CLI::Option* add_calibration(CLI::App& command, std::filesystem::path& folder);
CLI::Option* add_calibration(CLI::App& command, std::filesystem::path& folder,
                             const std::string& help);
CLI::Option* add_threads(CLI::App& command, int& threads);
CLI::Option* add_decode_threads(CLI::App& command, int& threads);
/// Adds --text-clean; parse_text_clean() parses its value.
CLI::Option* add_text_clean(CLI::App& command, std::string& clean);
[[nodiscard]] TextClean parse_text_clean(const std::string& clean);
CLI::Option* add_max_pixels(CLI::App& command, std::int64_t& pixels);
CLI::Option* add_limit(CLI::App& command, std::int64_t& limit);
CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed);

/// Parses the command line. CLI11 would parse a word "[a,b]" as a list, but it may be the name of a
/// file, so a mark is put in front of such words, and validators remove it from the values.
void parse_command_line(CLI::App& app, const std::vector<std::string>& arguments);
/// Returns the words after `--` of a command that runs a program; empty for others.
[[nodiscard]] const std::vector<std::string>& words_after_dashes();
/// Removes that mark from a word that no option has consumed.
[[nodiscard]] std::string remove_word_mark(const std::string& word);

/// Whether the option was given on the command line, and not by a FOVEA_ variable.
[[nodiscard]] bool is_typed(const CLI::App& command, const CLI::Option& option);
/// Throws CLI::ValidationError, "--limit <reason>", when one of the options was given on the
/// command line. Options set by variables are ignored when they do not apply.
void reject_if_typed(const CLI::App& command, std::initializer_list<const char*> names,
                     std::string_view reason);
/// Excludes the option from those that FOVEA_ variables set.
CLI::Option* without_variable(CLI::Option* option);
/// Returns the variable that sets an option, which is FOVEA_ and its long name in capitals; "" when
/// there is none.
[[nodiscard]] std::string variable_name(const CLI::Option& option);
/// Returns the placeholder for the option's value in help ("N", "auto|cpu"), and its range in
/// words, or "".
[[nodiscard]] std::pair<std::string, std::string> value_and_range(const CLI::Option& option);

}  // namespace fovea::cli
