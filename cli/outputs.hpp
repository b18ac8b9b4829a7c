// Options that name an output, and the rule for what they may replace.
//
// An output never replaces an input of the same command. An existing file that Fovea did not write,
// judging by its content, is replaced only with --overwrite, and a name whose ending means
// something else is refused. All of this is checked before anything is computed. docs/output.md
// documents the rule for users.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include <CLI/App.hpp>

namespace fovea::cli {

/// What an output contains.
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

/// Declares that the option names an output of the given kind, and adds --overwrite to the command.
CLI::Option* names_output(CLI::App& command, CLI::Option* option, OutputKind kind);

/// The name of the option's output kind, as in `fovea manual --json`; "" when it names no output.
[[nodiscard]] std::string_view output_of(const CLI::Option& option);

/// Whether --overwrite was given.
[[nodiscard]] bool overwrites(const CLI::App& command);

/// Throws CLI::ValidationError when an output of the chosen command would replace a file that it
/// must not replace.
void check_outputs(const CLI::App& app);

/// The same for an array whose file is not named by an option; throws fovea::Error.
void check_array_output(const CLI::App& command, const std::filesystem::path& file);

}  // namespace fovea::cli
