// The sources of the kernels, as data: what the laboratory compiles candidates from at run time.
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

/// Throws fovea::Error when there is no such parameter.
[[nodiscard]] int value_of(const ParameterValues& values, std::string_view name);

/// "stages 4, columns 192": those of `values` that differ from `base`.
[[nodiscard]] std::string differences(const ParameterValues& values, const ParameterValues& base);

/// A JSON object of the values by name.
[[nodiscard]] nlohmann::ordered_json values_json(const ParameterValues& values);

/// A kernel as kernels/variants.py lists it.
struct KernelEntry {
  std::string source;                 // "gemm/sm90_cooperative.cuh"
  std::vector<std::string> includes;  // below kernels/
  std::string text;                   // of the entry point; $name and $PARAMETER stand for values
  std::string family;                 // "gemm_cooperative"; empty without tuning parameters
  ParameterValues values;
};

/// The values that a tuning parameter may take in candidates.
struct ParameterRange {
  std::string name;
  std::vector<int> values;
};

/// The text of a file. Throws fovea::Error when it cannot be read, or is empty.
[[nodiscard]] std::string read_source(const std::string& path);
/// Writes a file, and makes its folder. Throws fovea::Error when it cannot be written.
void write_source(const std::filesystem::path& path, const std::string& text);

class KernelSources {
 public:
  /// The sources that this program was built from.
  [[nodiscard]] static const KernelSources& built_in();
  /// The same entry points over the sources in `folder`, which holds a folder kernels/. Throws
  /// fovea::Error when it does not.
  [[nodiscard]] static KernelSources from_folder(const std::string& folder);

  /// SHA-256 of all files.
  [[nodiscard]] std::string digest() const;
  /// Text by path: "kernels/gemm/config.cuh".
  [[nodiscard]] const std::map<std::string, std::string>& files() const { return files_; }
  /// Files of these kernels and all that they include: text by path.
  [[nodiscard]] std::map<std::string, std::string> files_of(
      std::span<const std::string> kernels) const;
  /// Writes all files below a folder that from_folder() takes.
  void write(const std::filesystem::path& folder) const;
  /// The same with other texts of these files.
  [[nodiscard]] KernelSources with_files(const std::map<std::string, std::string>& files) const;
  /// Replaces a file's text, or adds a file.
  void set_file(const std::string& path, std::string text) { files_[path] = std::move(text); }

  /// Throws fovea::Error when there is none of this name.
  [[nodiscard]] const KernelEntry& kernel(std::string_view name) const;
  /// The parameters of a family that candidates may change; none for an unknown family.
  [[nodiscard]] std::span<const ParameterRange> parameters(const std::string& family) const;
  /// The kernel's own values with these changes. Throws fovea::Error for a parameter that it does
  /// not have.
  [[nodiscard]] ParameterValues changed(const KernelEntry& entry,
                                        const std::map<std::string, int>& changes) const;
  /// Names a change that candidates may not have; empty when they may have all of them.
  [[nodiscard]] std::string outside_of_table(const KernelEntry& entry,
                                             const std::map<std::string, int>& changes) const;
  /// A unit for the compiler: this kernel alone, with these values of its tuning parameters.
  [[nodiscard]] std::string unit(std::string_view name, const ParameterValues& values) const;

 private:
  std::map<std::string, std::string> files_;
  std::map<std::string, KernelEntry, std::less<>> kernels_;
  std::map<std::string, std::vector<ParameterRange>> parameters_;
};

}  // namespace fovea::lab
