// The sources of the kernels as data, from which the laboratory compiles candidates at run time.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace fovea::lab {

/// Values of tuning parameters by name, in the order of the kernel's tuning struct.
using ParameterValues = std::vector<std::pair<std::string, int>>;

/// Returns a parameter's value. Throws fovea::Error if there is no such parameter.
[[nodiscard]] int value_of(const ParameterValues& values, std::string_view name);

/// Returns the values that differ from `base` as text: "stages 4, columns 192".
[[nodiscard]] std::string differences(const ParameterValues& values, const ParameterValues& base);

/// Returns the values as a JSON object.
[[nodiscard]] nlohmann::ordered_json values_json(const ParameterValues& values);

/// An entry of the list of kernels in kernels/variants.py.
struct KernelEntry {
  std::string source;                 // "gemm/sm90_cooperative.cuh"
  std::vector<std::string> includes;  // paths of headers relative to kernels/
  std::string text;    // template of the entry point, with placeholders $name and $PARAMETER
  std::string family;  // "gemm_cooperative"; empty without tuning parameters
  ParameterValues values;
};

/// The values that candidates may use for a tuning parameter.
struct ParameterRange {
  std::string name;
  std::vector<int> values;
};

/// Returns the text of a file. Throws fovea::Error if the file is unreadable or empty.
[[nodiscard]] std::string read_source(const std::string& path);
/// Writes a file, creating its folder. Throws fovea::Error if that fails.
void write_source(const std::filesystem::path& path, const std::string& text);

class KernelSources {
 public:
  /// Returns the sources embedded in this program, from which it was built.
  [[nodiscard]] static const KernelSources& built_in();
  /// Returns the same entry points with the sources in `folder`, which must contain a folder
  /// kernels/. Throws fovea::Error if it does not.
  [[nodiscard]] static KernelSources from_folder(const std::string& folder);

  /// Returns the SHA-256 of all files.
  [[nodiscard]] std::string digest() const;
  /// Returns the texts by path: "kernels/gemm/config.cuh".
  [[nodiscard]] const std::map<std::string, std::string>& files() const { return files_; }
  /// Returns the texts, by path, of the files of these kernels and of all files that they include.
  [[nodiscard]] std::map<std::string, std::string> files_of(
      std::span<const std::string> kernels) const;
  /// Writes all files to a folder that from_folder() can read.
  void write(const std::filesystem::path& folder) const;
  /// Returns a copy in which these files are replaced or added.
  [[nodiscard]] KernelSources with_files(const std::map<std::string, std::string>& files) const;
  /// Replaces a file's text, or adds a file.
  void set_file(const std::string& path, std::string text) { files_[path] = std::move(text); }

  [[nodiscard]] bool contains(std::string_view name) const { return kernels_.contains(name); }
  /// Returns the entry of a kernel. Throws fovea::Error if there is no kernel with this name.
  [[nodiscard]] const KernelEntry& kernel(std::string_view name) const;
  /// Returns the parameters that candidates of a family may change; none if the family is unknown.
  [[nodiscard]] std::span<const ParameterRange> parameters(const std::string& family) const;
  /// Returns the kernel's default values of all parameters with these changes. Throws fovea::Error
  /// for an unknown parameter.
  [[nodiscard]] ParameterValues changed(const KernelEntry& entry,
                                        const std::map<std::string, int>& changes) const;
  /// Returns a description of a change to a value that is not in the table; empty if all changes
  /// are allowed.
  [[nodiscard]] std::string outside_of_table(const KernelEntry& entry,
                                             const std::map<std::string, int>& changes) const;
  /// Returns a translation unit with only this kernel and these values of its tuning parameters.
  [[nodiscard]] std::string unit(std::string_view name, const ParameterValues& values) const;

 private:
  std::map<std::string, std::string> files_;
  std::map<std::string, KernelEntry, std::less<>> kernels_;
  std::map<std::string, std::vector<ParameterRange>> parameters_;
};

}  // namespace fovea::lab
