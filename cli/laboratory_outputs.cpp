// Recognition of outputs of the laboratory whose formats only the laboratory can parse.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "cli/output_kinds.hpp"
#include "core/error.hpp"
#include "lab/captures/results.hpp"
#include "lab/cards/card.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

bool is_captures_file(const fs::path& file) {
  try {
    (void)captures::read_results(file);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns the files of a profile that have its extensions: those in the folder `value`, or those
// whose names begin with `value`.
std::vector<fs::path> profile_files(const std::string& value) {
  std::error_code error;
  const bool in_folder = fs::is_directory(value, error);
  const fs::path folder = in_folder ? fs::path(value) : fs::path(value).parent_path();
  const std::string stem = in_folder ? "" : fs::path(value).filename().native();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const fs::path name = entry.path().filename();
    const std::string suffix =
        name.stem().native().starts_with(stem)
            ? name.stem().native().substr(std::min(stem.size(), name.stem().native().size()))
            : "?";
    const bool is_number =
        suffix.empty() ||
        (suffix.front() == '-' && std::ranges::all_of(suffix.substr(1), [](unsigned char c) {
           return std::isdigit(c) != 0;
         }));
    const bool has_card_name =
        in_folder && std::ranges::any_of(lab::find_cards({}), [&](const lab::Card* card) {
          return name.native().starts_with(card->name + "-");
        });
    if ((in_folder ? has_card_name : is_number) &&
        (name.extension() == ".json" || name.extension() == ".ncu-rep")) {
      files.push_back(folder / name);
    }
  }
  if (files.empty() && !in_folder) {
    files.emplace_back(value + ".json");
  }
  return files;
}

}  // namespace fovea::cli
