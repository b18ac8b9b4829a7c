// Decides which files an output may replace. Inputs are the values of all options that name no
// output; files are compared by device and inode number. cli/output_kinds.cpp defines the kinds of
// outputs.
#include "cli/outputs.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "cli/options.hpp"
#include "cli/output_kinds.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "fovea/hub.hpp"
#include "fovea/job.hpp"
#include "io/file.hpp"
#include "io/output_place.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOverwrite = "--overwrite";
constexpr const char* kImageMessage =
    "{}: is an image, and outputs never replace images; choose another name";
constexpr const char* kSharedFileMessage = "{}: is also the output of {}; choose different files";

/// Returns the kind of output that the option names, or null. For an option with two kinds it is
/// the later one in output_kinds(): `kernel bench` adds kBenchReport to the kJson of every --json.
const KindOfOutput* kind_of_option(const CLI::Option& option) {
  for (const KindOfOutput& kind : std::views::reverse(output_kinds())) {
    try {
      (void)const_cast<CLI::Option&>(option).get_validator(std::string(kind.name));
      return &kind;
    } catch (const CLI::OptionNotFound&) {
      continue;
    }
  }
  return nullptr;
}

/// Returns why an output of this kind must not have that name, because its extension means
/// something else, or "" when it may. `what` names the output in the message.
std::string name_objection(const KindOfOutput& kind, std::string_view what, const fs::path& path) {
  const std::string_view name_kind = kind_by_name(path.filename().native());
  if (name_kind == "other" || kind.allows(path.extension().native())) {
    return "";
  }
  return fmt::format("writes {}, but the name {} has the ending of {}{}", what,
                     printable_name(path.native()), kind_phrase(name_kind),
                     kind.endings.empty()
                         ? ""
                         : fmt::format("; use a name that ends in {}", kind.endings.front()));
}

std::string check_name(const KindOfOutput& kind, const std::string& value) {
  std::error_code ignored;
  if (kind.is_folder) {
    return fs::exists(value, ignored) && !fs::is_directory(value, ignored)
               ? printable_name(value) + ": is a file; expected a folder"
               : "";
  }
  const bool is_checked_by_job = kind.kind == OutputKind::kEmbeddings;
  if (is_checked_by_job || kind.output_files(value).empty() || fs::is_directory(value, ignored)) {
    return "";
  }
  const fs::path path = value;
  if (std::string reason = name_objection(kind, kind.what, path); !reason.empty()) {
    return reason;
  }
  const fs::path folder = path.parent_path();
  return folder.empty() || fs::is_directory(folder, ignored)
             ? ""
             : fmt::format("{}: there is no folder {}", printable_name(value),
                           printable_name(folder.native()));
}

bool is_same_file(const fs::path& path, const struct stat& file) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && info.st_dev == file.st_dev &&
         info.st_ino == file.st_ino;
}

/// Returns the first value of an input option for which `matches` is true.
std::optional<std::string> find_value(const CLI::App& command,
                                      const std::function<bool(const std::string&)>& matches) {
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_items_expected_max() == 0 || kind_of_option(*option) != nullptr) {
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

/// Whether a command with `folder` as an input reads the file: all files of a model or of an output
/// of embed are read, but only images of other folders.
bool is_read_from(const fs::path& folder, const io::OutputPlace& place) {
  std::error_code error;
  const bool reads_all_files =
      fs::exists(folder / "config.json", error) || fs::exists(folder / "manifest.json", error);
  if (!reads_all_files && kind_by_name(place.path.filename().native()) != "image") {
    return false;
  }
  const fs::path inner = fs::canonical(place.path, error);
  const fs::path outer = fs::canonical(folder, error);
  if (!outer.empty() && std::ranges::mismatch(outer, inner).in1 == outer.end()) {
    return true;
  }
  // A model in the hub's cache is a folder of symbolic links.
  const fs::directory_iterator entries(folder, error);
  return std::ranges::any_of(begin(entries), end(entries), [&](const fs::directory_entry& entry) {
    return is_same_file(entry.path(), *place.existing);
  });
}

/// Whether the list names the file, in a line or in a JSON string.
bool is_listed(const std::string& value, const io::OutputPlace& place) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  const fs::path list = without_at(value);
  const bool is_json = list.extension() == ".json" || list.extension() == ".jsonl";
  std::error_code error;
  if (!place.existing || (!is_json && !value.starts_with('@')) ||
      !fs::is_regular_file(list, error) || fs::file_size(list, error) > kMaxBytes) {
    return false;
  }
  const struct stat existing = *place.existing;
  const std::string text = io::read_small_file(list, kMaxBytes);
  std::string_view remaining_text = text;
  while (!remaining_text.empty()) {
    const std::size_t end = remaining_text.find_first_of(is_json ? std::string_view("\"")
                                                                 : std::string_view("\r\n\0", 3));
    const fs::path name = remaining_text.substr(0, end);
    if (!name.empty() &&
        (is_same_file(name, existing) || is_same_file(list.parent_path() / name, existing))) {
      return true;
    }
    remaining_text.remove_prefix(end == std::string_view::npos ? remaining_text.size() : end + 1);
  }
  return false;
}

/// Returns the folder of a model in the hub's cache.
std::optional<fs::path> model_folder(const std::string& value) {
  try {
    return std::ranges::count(value, '/') == 1 ? std::optional(find_model(value)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Returns the value of an input option that names this file, or a list (@FILE) with this path,
/// also through links.
std::optional<std::string> direct_input(const CLI::App& command, const struct stat& file) {
  return find_value(command, [&](const std::string& value) {
    return is_same_file(value, file) || is_same_file(without_at(value), file);
  });
}

/// Returns the value of an input option that reads the file without naming it: a model, an output
/// or a folder of photos that contains it, or a list that names it.
std::optional<std::string> containing_input(const CLI::App& command, const io::OutputPlace& place) {
  return find_value(command, [&](const std::string& value) {
    std::error_code error;
    if (fs::is_directory(value, error)) {
      return is_read_from(value, place);
    }
    const auto model = model_folder(value);
    return model ? is_read_from(*model, place) : is_listed(value, place);
  });
}

/// Returns why `file` must not be written; "" when it may be.
std::string file_objection(const CLI::App& command, const KindOfOutput& kind,
                           const fs::path& file) {
  const std::string shown_name = printable_name(file.native());
  const io::OutputPlace place = io::output_place(file);
  if (place.is_direct || !place.existing) {
    return "";
  }
  const auto input_message = [&](const std::optional<std::string>& input) {
    return fmt::format(
        "{}: is an input of this command ({}), which it would replace; choose "
        "another output",
        shown_name, printable_name(*input));
  };
  if (const auto input = direct_input(command, *place.existing)) {
    return input_message(input);
  }
  if (const std::string reason = name_objection(kind, kind.what, place.path);
      place.path != file && !reason.empty()) {
    return fmt::format("{}: is a link, and {}", shown_name, reason);
  }
  const bool is_empty = place.existing->st_size == 0;
  if (!is_empty && kind.is_written_by_fovea != nullptr && kind.is_written_by_fovea(place.path)) {
    return "";
  }
  const bool is_checked_later = kind.is_written_by_fovea == nullptr && !has_overwrite_flag(command);
  if (const auto input = is_checked_later ? std::nullopt : containing_input(command, place)) {
    return input_message(input);
  }
  if (is_image(place.path)) {
    return fmt::format(kImageMessage, shown_name);
  }
  return is_empty || kind.is_written_by_fovea == nullptr || has_overwrite_flag(command)
             ? ""
             : fmt::format(
                   "{}: exists, and is not {} that Fovea wrote; choose another name, or "
                   "replace it with --overwrite",
                   shown_name, kind.what);
}

/// A file to which an option writes its output.
struct Destination {
  const CLI::Option* option;
  const KindOfOutput* kind;
  fs::path file;
};

/// Whether two outputs would be written to the same file. Pipes and devices may be shared.
bool is_same_place(const fs::path& a, const fs::path& b) {
  const io::OutputPlace place = io::output_place(a);
  const io::OutputPlace other = io::output_place(b);
  if (place.is_direct || other.is_direct) {
    return false;
  }
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(fs::absolute(place.path), error);
  return (!error && canonical == fs::weakly_canonical(fs::absolute(other.path), error)) ||
         fs::equivalent(place.path, other.path, error);
}

/// Returns the files of all outputs of a command.
std::vector<Destination> destinations(const CLI::App& command) {
  std::vector<Destination> outputs;
  for (const CLI::Option* const option : command.get_options()) {
    const KindOfOutput* const kind = kind_of_option(*option);
    if (kind == nullptr || option->count() == 0) {
      continue;
    }
    for (const std::string& value : option->results()) {
      for (const fs::path& file : kind->output_files(value)) {
        outputs.push_back({option, kind, file});
      }
    }
  }
  return outputs;
}

/// Returns the name of another option whose output would be the same file; "" for none.
std::string conflicting_option(const Destination& output, std::span<const Destination> others) {
  const auto conflict = std::ranges::find_if(others, [&](const Destination& other) {
    return other.option != output.option && is_same_place(output.file, other.file);
  });
  return conflict == others.end() ? "" : conflict->option->get_name();
}

/// Returns why the output must not be written or cannot be examined; "" when it may be written.
std::string output_objection(const CLI::App& command, const Destination& output) {
  try {
    return file_objection(command, *output.kind, output.file);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

CLI::Option* declare_output(CLI::App& command, CLI::Option* option, OutputKind which) {
  const KindOfOutput& kind = output_kinds()[static_cast<std::size_t>(which)];
  option->check(CLI::Validator([&kind](std::string& value) { return check_name(kind, value); }, "",
                               std::string(kind.name)));
  if (command.get_option_no_throw(kOverwrite) == nullptr) {
    // No FOVEA_OVERWRITE: a variable forgotten in a shell must not delete anything.
    without_variable(command.add_flag(kOverwrite))
        ->description(
            "Replace an existing output: start a folder again, or replace a file that Fovea did "
            "not write")
        ->group(kOutputGroup);
  }
  return option;
}

std::string_view output_kind_name(const CLI::Option& option) {
  const KindOfOutput* const kind = kind_of_option(option);
  return kind == nullptr ? "" : kind->name;
}

bool has_overwrite_flag(const CLI::App& command) {
  const CLI::Option* const option = command.get_option(kOverwrite);
  return option->count() > 0 && option->as<bool>();
}

void check_outputs(const CLI::App& app) {
  for (const CLI::App* const command : app.get_subcommands()) {
    const std::vector<Destination> outputs = destinations(*command);
    for (auto output = outputs.begin(); output != outputs.end(); ++output) {
      std::string reason = output_objection(*command, *output);
      if (const std::string other_option = conflicting_option(*output, {outputs.begin(), output});
          reason.empty() && !other_option.empty()) {
        reason =
            fmt::format(kSharedFileMessage, printable_name(output->file.native()), other_option);
      }
      if (!reason.empty()) {
        throw CLI::ValidationError(output->option->get_name(), reason);
      }
    }
    check_outputs(*command);
  }
}

void check_array_output(const CLI::App& command, const fs::path& file) {
  const KindOfOutput& kind = output_kinds()[static_cast<std::size_t>(OutputKind::kEmbeddings)];
  const std::string shown_name = printable_name(file.native());
  if (const std::string reason = name_objection(kind, "an array", file); !reason.empty()) {
    throw Error("the launch file " + reason);
  }
  const io::OutputPlace place = io::output_place(file);
  if (place.existing && !place.is_direct && is_image(place.path)) {
    throw Error(fmt::format(kImageMessage, shown_name));
  }
  const std::vector<Destination> outputs = destinations(command);
  if (const std::string other_option = conflicting_option({nullptr, &kind, file}, outputs);
      !other_option.empty()) {
    throw Error(fmt::format(kSharedFileMessage, shown_name, other_option));
  }
}

}  // namespace fovea::cli
