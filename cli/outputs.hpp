// Options that name an output, and the rule for what they may replace.
//
// An output never replaces an input of the same command. An existing file that Fovea did not write,
// judging by its content, is replaced only with --overwrite. A name with the extension of another
// format is rejected. All of this is checked before anything is computed. docs/output.md documents
// the rule for users.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include <CLI/App.hpp>

namespace fovea::cli {

/// The content of an output.
enum class OutputKind : std::uint8_t {
  kJson,
  kBenchReport,  // JSON that is merged with other measurements in the file
  kGateRecord,
  kPage,
  kPicture,
  kLabels,
  kTable,
  kTrace,
  kSarif,
  kGraph,
  kMachineCode,
  kCaptures,
  kTask,
  kProfile,       // named by the common prefix of its files; with --gate a folder
  kLedger,        // with --resume, the command appends to its earlier ledger
  kEmbeddings,    // a folder, or an array and two files; the job checks existing files itself
  kFolder,        // the command checks existing files itself
  kSanitizers,    // a folder
  kCalibrations,  // a folder
  kShare,         // a folder
};

/// Declares that the option names an output of the given kind, and adds --overwrite to the command.
CLI::Option* declare_output(CLI::App& command, CLI::Option* option, OutputKind kind);

/// Returns the name of the option's output kind, as in `fovea manual --json`; "" when it names no
/// output.
[[nodiscard]] std::string_view output_kind_name(const CLI::Option& option);

/// Whether --overwrite was given.
[[nodiscard]] bool has_overwrite_flag(const CLI::App& command);

/// Throws CLI::ValidationError when an output of the chosen command would replace a file that it
/// must not replace.
void check_outputs(const CLI::App& app);

/// The same for an array whose file no option names; throws fovea::Error.
void check_array_output(const CLI::App& command, const std::filesystem::path& file);

}  // namespace fovea::cli
