// Goes through the values of all options that name no output. Files are compared by device and
// inode number.
#include "cli/output_inputs.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

#include "cli/outputs.hpp"
#include "fovea/error.hpp"
#include "fovea/hub.hpp"
#include "fovea/job.hpp"
#include "io/file.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

bool is_same_file(const fs::path& path, const struct stat& file) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && info.st_dev == file.st_dev &&
         info.st_ino == file.st_ino;
}

/// The first value of an option that reads which `matches`.
std::optional<std::string> find_value(const CLI::App& command,
                                      const std::function<bool(const std::string&)>& matches) {
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_items_expected_max() == 0 || !output_of(*option).empty()) {
      continue;
    }
    for (const std::string& value : option->results()) {
      if (matches(value)) {
        return value;
      }
    }
  }
  return std::nullopt;
}

std::string without_at(const std::string& value) {
  return value.starts_with('@') ? value.substr(1) : value;
}

/// A model or an output of embed is read whole, of other folders the photos.
bool is_read_from(const fs::path& folder, const io::OutputPlace& place) {
  std::error_code absent;
  const bool whole =
      fs::exists(folder / "config.json", absent) || fs::exists(folder / "manifest.json", absent);
  if (!whole && kind_by_name(place.path.filename().native()) != "image") {
    return false;
  }
  const fs::path inner = fs::canonical(place.path, absent);
  const fs::path outer = fs::canonical(folder, absent);
  if (!outer.empty() && std::ranges::mismatch(outer, inner).in1 == outer.end()) {
    return true;
  }
  // A model of the hub's cache is a folder of links.
  const fs::directory_iterator entries(folder, absent);
  return std::ranges::any_of(begin(entries), end(entries), [&](const fs::directory_entry& entry) {
    return is_same_file(entry.path(), *place.there);
  });
}

/// Whether a list names the file: a line of it, or a string in JSON.
bool is_listed(const std::string& value, const io::OutputPlace& place) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  const fs::path list = without_at(value);
  const bool is_json = list.extension() == ".json" || list.extension() == ".jsonl";
  std::error_code absent;
  if (!place.there || (!is_json && !value.starts_with('@')) || !fs::is_regular_file(list, absent) ||
      fs::file_size(list, absent) > kMostBytes) {
    return false;
  }
  const struct stat there = *place.there;
  const std::string text = io::read_small_file(list, kMostBytes);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end =
        rest.find_first_of(is_json ? std::string_view("\"") : std::string_view("\r\n\0", 3));
    const fs::path name = rest.substr(0, end);
    if (!name.empty() &&
        (is_same_file(name, there) || is_same_file(list.parent_path() / name, there))) {
      return true;
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return false;
}

/// Where the hub's cache has a model of that name.
std::optional<fs::path> model_folder(const std::string& value) {
  try {
    return std::ranges::count(value, '/') == 1 ? std::optional(find_model(value)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::string> named_input(const CLI::App& command, const struct stat& file) {
  return find_value(command, [&](const std::string& value) {
    return is_same_file(value, file) || is_same_file(without_at(value), file);
  });
}

std::optional<std::string> input_among_others(const CLI::App& command,
                                              const io::OutputPlace& place) {
  return find_value(command, [&](const std::string& value) {
    std::error_code absent;
    if (fs::is_directory(value, absent)) {
      return is_read_from(value, place);
    }
    const auto model = model_folder(value);
    return model ? is_read_from(*model, place) : is_listed(value, place);
  });
}

}  // namespace fovea::cli
