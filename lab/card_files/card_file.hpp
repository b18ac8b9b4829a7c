// Card files: cards of kernels that the program does not contain, one JSON file each.
// docs/laboratory.md describes the format.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/card_files/file_kernels.hpp"
#include "lab/cards/card.hpp"
#include "lab/emulation/expression.hpp"
#include "lab/emulation/launch_file.hpp"

namespace fovea::lab {

/// What a card file says, with its kernels compiled.
struct FileCard {
  std::string name;  // the file's, for messages
  std::filesystem::path folder;
  nlohmann::json document;
  std::string operation;
  std::vector<FileKernel> kernels{};  // one for each launch
  emulation::Values macros{};
  std::string output;     // name of the buffer that has the result
  std::string reference;  // an expression
  std::vector<std::pair<std::string, std::string>> mutants{};  // names and expressions
  std::string independent_rows{};  // a buffer whose row i is used only for row i of the output

  /// Returns the fields of the problem that matters, with these values for some of them.
  [[nodiscard]] emulation::Values problem(const emulation::Values& changes) const;
  /// Returns the buffers, without content, and the launches for a problem.
  [[nodiscard]] emulation::LaunchFile launch_file(const emulation::Values& problem) const;
};

/// Returns whether the name of a card is that of a file: it ends in ".json" or has a slash.
[[nodiscard]] bool is_card_file(std::string_view name);

/// Reads a card file and compiles its kernels, once for each name. Not thread-safe. Throws
/// fovea::Error, which names the file and the field, if the file is wrong, and CompileError if its
/// source is.
[[nodiscard]] const Card& file_card(const std::string& name);

/// Returns the cards of these names, some of which may be those of files, or all of the program's
/// cards if `names` is empty. Throws as find_cards() and file_card() do.
[[nodiscard]] std::vector<const Card*> named_cards(std::span<const std::string> names);

}  // namespace fovea::lab
