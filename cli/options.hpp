// Every option that several commands take, defined once: its names, values, range and help.
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

/// Puts what is declared from here on into the group: options that name no other, of the command
/// and of those that are added to it. Options of several commands name theirs.
void begin_group(CLI::App& command, const char* group);

/// Upper limit of options that are numbers of threads: a larger number is a typing error.
inline constexpr std::int64_t kMaxThreads = 1024;

/// The range of a whole number; without a largest one by default.
struct Whole {
  static constexpr std::int64_t kNoLimit = INT64_MAX;
  std::int64_t least = 0;
  std::int64_t greatest = kNoLimit;
};

// Kinds of options. CLI11's templates are compiled for them once, in options.cpp. `names` is as
// CLI11 takes it ("-k,--neighbours"); a name without dashes is a position. `value` is what help
// calls the value ("FILE", "COSINE"). Values that are lists are separated by commas.
CLI::Option* add_flag(CLI::App& command, const char* names, bool& variable, const char* help);
CLI::Option* add_text(CLI::App& command, const char* names, const char* value,
                      std::string& variable, const char* help);
/// A position that may be repeated, or an option of several values.
CLI::Option* add_texts(CLI::App& command, const char* name, std::vector<std::string>& variable,
                       const char* help);
/// An option that takes one value each time.
CLI::Option* add_repeated(CLI::App& command, const char* name, const char* value,
                          std::vector<std::string>& variable, const char* help);
/// One of these words, in any case; help shows them all.
CLI::Option* add_choice(CLI::App& command, const char* names, const std::vector<std::string>& words,
                        std::string& variable, const char* help);
CLI::Option* add_choices(CLI::App& command, const char* names,
                         const std::vector<std::string>& words, std::vector<std::string>& variable,
                         const char* help);
CLI::Option* add_whole(CLI::App& command, const char* names, Whole range, int& variable,
                       const char* help);
CLI::Option* add_whole(CLI::App& command, const char* names, Whole range, std::int64_t& variable,
                       const char* help);
CLI::Option* add_whole(CLI::App& command, const char* names, Whole range, std::uint64_t& variable,
                       const char* help);
CLI::Option* add_optional_whole(CLI::App& command, const char* names, Whole range,
                                std::optional<std::uint64_t>& variable, const char* help);
CLI::Option* add_wholes(CLI::App& command, const char* names, Whole range,
                        std::vector<std::int64_t>& variable, const char* help);
/// A number of bytes: "512M", "2 GiB"; units are powers of 1024.
CLI::Option* add_size(CLI::App& command, const char* names, std::uint64_t& variable,
                      const char* help);
/// A number from `least` to `greatest`, both included unless `above_least`.
struct Real {
  double least;
  double greatest;
  bool above_least = false;
};
CLI::Option* add_real(CLI::App& command, const char* names, const char* value, Real range,
                      double& variable, const char* help);

/// A text that names an output of that kind.
CLI::Option* add_output_text(CLI::App& command, const char* names, const char* value,
                             std::string& variable, OutputKind kind, const char* help);

// Options of several commands.
CLI::Option* add_output(CLI::App& command, std::string& output, OutputKind kind, const char* value,
                        const char* help);
/// --trace, of a command that runs a schedule on the emulator.
CLI::Option* add_trace(CLI::App& command, std::string& file);
CLI::Option* add_device(CLI::App& command, std::string& device,
                        const char* help = "Where to compute; auto takes a GPU where there is one");
/// 0 is automatic.
CLI::Option* add_batch_size(CLI::App& command, int& images);
/// One or several; without a variable.
CLI::Option* add_batch_sizes(CLI::App& command, std::vector<std::int64_t>& images);
CLI::Option* add_precision(CLI::App& command, Precision& precision);
/// Several of `words`; without a variable, because it says what a run is about.
CLI::Option* add_precisions(CLI::App& command, const std::vector<std::string>& words,
                            std::vector<Precision>& precisions);
/// "int8 and fp8": the precisions that are calibrated.
[[nodiscard]] std::string calibrated_words(std::string_view conjunction);
/// The folder of the model's calibrations, for those precisions.
CLI::Option* add_calibration(CLI::App& command, std::filesystem::path& folder);
CLI::Option* add_calibration(CLI::App& command, std::filesystem::path& folder,
                             const std::string& help);
CLI::Option* add_threads(CLI::App& command, int& threads);
CLI::Option* add_decode_threads(CLI::App& command, int& threads);
/// --text-clean, whose value text_clean() parses.
CLI::Option* add_text_clean(CLI::App& command, std::string& clean);
[[nodiscard]] TextClean text_clean(const std::string& clean);
CLI::Option* add_max_pixels(CLI::App& command, std::int64_t& pixels);
CLI::Option* add_limit(CLI::App& command, std::int64_t& limit);
CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed);

/// CLI11 takes a word "[a,b]" for a list, but photos may lie in a folder of that name. Parses such
/// words behind a mark, which options take off their values before anything reads them.
void parse_as_typed(CLI::App& app, const std::vector<std::string>& words);
/// Takes the mark off a word that no option took.
[[nodiscard]] std::string without_mark(const std::string& word);

/// Whether the command line has the option; a variable may have set those that it does not have.
[[nodiscard]] bool is_typed(const CLI::App& command, const CLI::Option& option);
/// Throws CLI::ValidationError, "--limit <reason>", when the command line has one of the options.
/// One from the environment is ignored where it does not apply.
void refuse_typed(const CLI::App& command, std::initializer_list<const char*> names,
                  std::string_view reason);
/// No FOVEA_ variable sets this option.
CLI::Option* without_variable(CLI::Option* option);
/// The variable that sets an option: FOVEA_ and its long name; "" where there is none.
[[nodiscard]] std::string variable_of(const CLI::Option& option);
/// What help calls the option's value ("N", "auto|cpu"), and its range in words, or "".
[[nodiscard]] std::pair<std::string, std::string> value_and_range(const CLI::Option& option);

}  // namespace fovea::cli
