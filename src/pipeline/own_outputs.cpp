// Refuses outputs that are inputs. Files are compared by device and inode number.
#include "pipeline/own_outputs.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/line_reader.hpp"
#include "io/npy.hpp"
#include "io/text.hpp"
#include "pipeline/braces.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/output_files.hpp"
#include "pipeline/output_proof.hpp"

namespace fovea::pipeline {
namespace {

namespace fs = std::filesystem;

class OwnOutputs {
 public:
  explicit OwnOutputs(const fs::path& output) {
    if (is_array_file(output)) {
      for (const std::string& name : array_files(output)) {
        add(output.parent_path() / name);
      }
      return;
    }
    std::error_code missing;  // ignored: a folder that does not exist yet has no files
    for (const auto& entry : fs::directory_iterator(output, missing)) {
      if (is_output_file(output, entry.path().filename().native())) {
        add(entry.path());
      }
    }
  }

  [[nodiscard]] bool empty() const { return files_.empty(); }

  void refuse(const std::string& input) const {
    refuse_file(input);
    constexpr std::string_view kArraySuffix = ".npy";
    if (input.ends_with(kArraySuffix)) {  // the job also reads the index of an array
      refuse_file(input.substr(0, input.size() - kArraySuffix.size()) + ".index.jsonl");
    }
  }

 private:
  using Identity = std::pair<dev_t, ino_t>;

  void add(const fs::path& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) == 0) {
      files_[Identity(info.st_dev, info.st_ino)] = path.native();
    }
  }

  void refuse_file(const std::string& path) const {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) {
      return;
    }
    const auto entry = files_.find(Identity(info.st_dev, info.st_ino));
    if (entry != files_.end()) {
      fail(
          "{}: the file is an input of the job, but its output {} would replace it; choose another "
          "output",
          io::escape(path), io::escape(entry->second));
    }
  }

  std::map<Identity, std::string> files_;
};

// Returns whether a name in a list can be a file of an output. Other names are not looked up,
// because the list may be long and the disk slow.
bool may_be_output(const std::string& name) {
  return name.ends_with(".npy") || name.ends_with(".jsonl");
}

// Reads the next name of a list. Returns false at the end, and for an error, which the job will
// report when it reads the list.
bool read_name(io::LineReader& lines, std::string& name, StopFlag stop) {
  bool has_name = false;
  return finding_of([&] { has_name = lines.next(name, stop); }).empty() && has_name;
}

void refuse_in_list(const OwnOutputs& outputs, const std::string& path, bool null_separated,
                    StopFlag stop) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return;  // a pipe can be read only once, by the job
  }
  io::LineReader lines(path, null_separated ? '\0' : '\n');
  std::string line;
  while (read_name(lines, line, stop)) {
    if (may_be_output(line)) {
      outputs.refuse(line);
    }
  }
}

/// Returns whether a regular file with content exists, which must not be replaced.
bool has_content(const fs::path& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
}

/// Returns the number of rows of an array; nullopt when the file is not an array.
std::optional<std::uint64_t> array_rows(const fs::path& path) {
  try {
    const Shape shape = io::NpyFile(path).shape();
    return shape.rank() == 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(shape[0]));
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    return std::nullopt;
  }
}

/// Returns whether the first line of a file can be parsed. Counts the lines in `count`.
template <typename Parse>
bool has_valid_line(const fs::path& path, const Parse& parse, std::uint64_t& count) {
  try {
    io::LineReader lines(path.native(), '\n');
    std::string line;
    for (; lines.next(line, {}); ++count) {
      if (count == 0) {
        parse(line);
      }
    }
    return count > 0;
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    return false;
  }
}

bool is_index_file(const fs::path& path, std::uint64_t& lines) {
  return has_content(path) &&
         has_valid_line(path, [](std::string_view line) { (void)parse_index_line(line); }, lines);
}

bool is_errors_file(const fs::path& path) {
  std::uint64_t lines = 0;
  return has_valid_line(path, [](std::string_view line) { (void)parse_error_source(line); }, lines);
}

}  // namespace

void refuse_own_outputs(const InputOptions& input, const fs::path& output, StopFlag stop) {
  const OwnOutputs outputs(output);
  if (outputs.empty()) {
    return;
  }
  for (const std::string& name : input.inputs) {
    struct stat info{};
    const bool exists = ::lstat(name.c_str(), &info) == 0;
    if (exists) {
      outputs.refuse(name);
    } else if (name.starts_with('@')) {
      outputs.refuse(name.substr(1));
      refuse_in_list(outputs, name.substr(1), input.null_separated, stop);
    } else if (const BracePattern pattern(name); pattern.has_groups() && name != "-") {
      for (std::uint64_t index = 0; index < pattern.count(); ++index) {
        stop.poll();
        outputs.refuse(pattern.name(index));
      }
    }
  }
}

void refuse_foreign_files(const fs::path& output, bool overwrite) {
  if (overwrite || !is_array_file(output)) {
    return;
  }
  const auto [array, index, errors] = array_files(output);
  const fs::path folder = output.parent_path();
  std::uint64_t lines = 0;
  const bool has_index = is_index_file(folder / index, lines);
  const auto refuse = [](const fs::path& path, std::string_view kind) {
    fail("{}: exists, and is not {} that Fovea wrote; choose another output, or replace it with {}",
         io::escape(path.native()), kind, option_words("overwrite"));
  };
  if (has_content(folder / index) && !has_index) {
    refuse(folder / index, "an index");
  }
  if (has_content(folder / errors) && !is_errors_file(folder / errors)) {
    refuse(folder / errors, "a list of errors");
  }
  if (has_content(output) && (array_rows(output) != lines || (!has_index && lines != 0))) {
    refuse(output, "an array");
  }
}

std::string input_containing(const InputOptions& input, const fs::path& output) {
  std::error_code error;
  // weakly_canonical() alone would leave a path relative when no part of it exists yet.
  const fs::path absolute = fs::absolute(output);
  const fs::path output_folder =
      fs::weakly_canonical(is_array_file(output) ? absolute.parent_path() : absolute, error);
  for (const std::string& name : input.inputs) {
    if (!fs::is_directory(name, error)) {
      continue;
    }
    const fs::path folder = fs::canonical(name, error);
    if (!error && std::ranges::mismatch(folder, output_folder).in1 == folder.end()) {
      return name;
    }
  }
  return "";
}

}  // namespace fovea::pipeline
