// Reads the document packed by kernels/pack_sources.py, or replacement files in a folder.
#include "lab/system/kernel_sources.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "io/digest.hpp"

extern "C" {
extern const char fovea_kernel_sources[];
extern const char fovea_kernel_sources_end[];
}

namespace fovea::lab {
namespace {

// Ordered, since the document determines the order of the tuning parameters.
using Json = nlohmann::ordered_json;

Json document() {
  const std::string text =
      gpu::unpack_text(std::as_bytes(std::span(fovea_kernel_sources, fovea_kernel_sources_end)));
  return Json::parse(text);
}

bool is_source(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".cuh" || extension == ".cu" || extension == ".hpp";
}

}  // namespace

std::string read_source(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // fails on empty files
  if (!file || !text) {
    fail("the source {} is empty or cannot be read", path);
  }
  return text.str();
}

void write_source(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    fail("cannot write {}", path.string());
  }
}

int value_of(const ParameterValues& values, std::string_view name) {
  const auto match = std::ranges::find(values, name, &std::pair<std::string, int>::first);
  if (match == values.end()) {
    fail("there is no tuning parameter '{}'", name);
  }
  return match->second;
}

std::string differences(const ParameterValues& values, const ParameterValues& base) {
  std::string text;
  for (const auto& [name, value] : values) {
    if (value != value_of(base, name)) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
    }
  }
  return text;
}

nlohmann::ordered_json values_json(const ParameterValues& values) {
  return Json::object_t(values.begin(), values.end());
}

const KernelSources& KernelSources::built_in() {
  static const KernelSources all = [] {
    KernelSources sources;
    const Json json = document();
    sources.files_ = json.at("sources").get<std::map<std::string, std::string>>();
    for (const auto& [name, kernel] : json.at("kernels").items()) {
      KernelEntry& entry = sources.kernels_[name];
      entry.source = kernel.at("source").get<std::string>();
      entry.includes = kernel.at("includes").get<std::vector<std::string>>();
      entry.text = kernel.at("template").get<std::string>();
      entry.family = kernel.at("family").get<std::string>();
      for (const auto& [parameter, value] : kernel.at("values").items()) {
        entry.values.emplace_back(parameter, value.get<int>());
      }
    }
    for (const auto& [family, parameters] : json.at("parameters").items()) {
      for (const auto& [parameter, values] : parameters.items()) {
        sources.parameters_[family].push_back({parameter, values.get<std::vector<int>>()});
      }
    }
    return sources;
  }();
  return all;
}

KernelSources KernelSources::from_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  KernelSources sources = built_in();
  const fs::path kernels = fs::path(folder) / "kernels";
  if (!fs::is_directory(kernels)) {
    fail("{} has no folder kernels/ with the kernels' sources", folder);
  }
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kernels)) {
    if (entry.is_regular_file() && is_source(entry.path())) {
      // fs::relative() would resolve links, possibly to files outside of the folder.
      sources.set_file(entry.path().lexically_relative(folder).generic_string(),
                       read_source(entry.path().string()));
    }
  }
  return sources;
}

std::map<std::string, std::string> KernelSources::files_of(
    std::span<const std::string> kernels) const {
  constexpr std::string_view kDirective = "#include \"";
  std::vector<std::string> open;
  for (const std::string& name : kernels) {
    const KernelEntry& entry = kernel(name);
    open.push_back("kernels/" + entry.source);
    std::ranges::transform(entry.includes, std::back_inserter(open),
                           [](const std::string& path) { return "kernels/" + path; });
  }
  std::map<std::string, std::string> closure;
  while (!open.empty()) {
    const auto file = files_.find(std::exchange(open.back(), {}));
    open.pop_back();
    if (file == files_.end() || !closure.insert(*file).second) {
      continue;
    }
    const std::string& text = file->second;
    for (std::size_t begin = 0; (begin = text.find(kDirective, begin)) != std::string::npos;) {
      begin += kDirective.size();
      open.push_back(text.substr(begin, text.find('"', begin) - begin));
    }
  }
  return closure;
}

KernelSources KernelSources::with_files(const std::map<std::string, std::string>& files) const {
  KernelSources sources = *this;
  for (const auto& [path, text] : files) {
    sources.set_file(path, text);
  }
  return sources;
}

void KernelSources::write(const std::filesystem::path& folder) const {
  for (const auto& [path, text] : files_) {
    write_source(folder / path, text);
  }
}

std::string KernelSources::digest() const {
  io::Digest digest;
  for (const auto& [path, text] : files_) {
    digest.add(fmt::format("{} {}\n", path, text.size()));
    digest.add(text);
  }
  return digest.hex();
}

const KernelEntry& KernelSources::kernel(std::string_view name) const {
  const auto match = kernels_.find(name);
  if (match == kernels_.end()) {
    fail("there is no kernel '{}' among the sources", name);
  }
  return match->second;
}

std::span<const ParameterRange> KernelSources::parameters(const std::string& family) const {
  const auto match = parameters_.find(family);
  return match == parameters_.end() ? std::span<const ParameterRange>() : match->second;
}

ParameterValues KernelSources::changed(const KernelEntry& entry,
                                       const std::map<std::string, int>& changes) const {
  ParameterValues values = entry.values;
  const std::span<const ParameterRange> ranges = parameters(entry.family);
  for (const auto& [name, value] : changes) {
    if (std::ranges::find(ranges, name, &ParameterRange::name) == ranges.end()) {
      std::vector<std::string> known;
      std::ranges::transform(ranges, std::back_inserter(known), &ParameterRange::name);
      fail_usage("kernels of {} have no tuning parameter '{}'; there are: {}",
                 entry.family.empty() ? entry.source : entry.family, name,
                 known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
    std::ranges::find(values, name, &std::pair<std::string, int>::first)->second = value;
  }
  return values;
}

std::string KernelSources::outside_of_table(const KernelEntry& entry,
                                            const std::map<std::string, int>& changes) const {
  for (const ParameterRange& range : parameters(entry.family)) {
    const auto change = changes.find(range.name);
    if (change != changes.end() &&
        std::ranges::find(range.values, change->second) == range.values.end()) {
      return fmt::format("{} = {} is not in the table of values: {}", range.name, change->second,
                         fmt::join(range.values, ", "));
    }
  }
  return {};
}

std::string KernelSources::unit(std::string_view name, const ParameterValues& values) const {
  const KernelEntry& entry = kernel(name);
  std::string unit;
  for (const std::string& include : entry.includes) {
    if (!include.ends_with(".cu")) {
      unit += fmt::format("#include \"kernels/{}\"\n", include);
    }
  }
  // Substitutes $name and ${name} like Python's string.Template.
  static const std::regex placeholder(R"(\$(?:\{(\w+)\}|(\w+)))");
  std::string_view rest = entry.text;
  for (auto match = std::sregex_iterator(entry.text.begin(), entry.text.end(), placeholder);
       match != std::sregex_iterator(); ++match) {
    const std::string word = (*match)[(*match)[1].matched ? 1 : 2].str();
    unit += match->prefix().str();
    unit += word == "name" ? std::string(name) : std::to_string(value_of(values, word));
    rest = std::string_view(entry.text)
               .substr(static_cast<std::size_t>(match->position() + match->length()));
  }
  unit += rest;
  if (entry.source.ends_with(".cu")) {
    unit += fmt::format("#include \"kernels/{}\"\n", entry.source);
  }
  return unit;
}

}  // namespace fovea::lab
