// Options that name an output: what they may replace, and what not, in one place.
//
// An output never replaces an input of the same command. A file that exists and that Fovea did not
// write, as far as its content tells, is replaced with --overwrite alone, and a name whose ending
// says that it is something else is refused. All is told before anything is computed.
// docs/output.md says so to users.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include <CLI/App.hpp>

namespace fovea::cli {

/// What is written.
enum class OutputKind : std::uint8_t {
  kJson,
  kBenchReport,  // JSON that keeps the other measurements of its file
  kGateRecord,
  kPage,
  kPicture,
  kLabels,
  kTable,
  kTrace,
  kGraph,
  kMachineCode,
  kCaptures,
  kTask,
  kProfile,       // by the beginning of its files' names; with --gate a folder
  kLedger,        // the command itself appends to its own with --resume
  kEmbeddings,    // a folder, or an array with two files beside it; the job itself judges what is
                  // there
  kFolder,        // the command itself judges what is there
  kSanitizers,    // a folder
  kCalibrations,  // a folder
  kShare,         // a folder
};

/// Declares that an option of the command names an output of that kind, and gives the command
/// --overwrite.
CLI::Option* names_output(CLI::App& command, CLI::Option* option, OutputKind kind);

/// What the option writes, in a word, as `fovea manual --json` has it; "" when it is no output.
[[nodiscard]] std::string_view output_of(const CLI::Option& option);

/// Whether --overwrite was given.
[[nodiscard]] bool overwrites(const CLI::App& command);

/// Throws CLI::ValidationError when the chosen command would replace what it must not.
void check_outputs(const CLI::App& app);

/// The same for an array that the command writes to a file which no option names; throws
/// fovea::Error.
void check_array_output(const CLI::App& command, const std::filesystem::path& file);

}  // namespace fovea::cli
