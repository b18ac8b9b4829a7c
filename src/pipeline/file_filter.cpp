// Matches patterns with paths: each part between slashes by fnmatch(3).
#include "pipeline/file_filter.hpp"

#include <algorithm>
#include <cstddef>

#include <fnmatch.h>

#include "core/error.hpp"
#include "io/text.hpp"
#include "pipeline/braces.hpp"
#include "pipeline/file_kinds.hpp"

namespace fovea::pipeline {
namespace {

constexpr std::string_view kAnyFolders = "**";

// Splits a path at its slashes. Empty parts and "." are dropped.
std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (!part.empty() && part != ".") {
      parts.emplace_back(part);
    }
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return parts;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::vector<GlobPattern> expand(const std::vector<std::string>& texts) {
  constexpr std::uint64_t kMaxPatterns = 10'000;
  std::vector<GlobPattern> patterns;
  for (const std::string& text : texts) {
    const BracePattern braces(text);
    if (braces.count() > kMaxPatterns) {
      fail("the pattern \"{}\" expands to {} patterns; at most {} are allowed", io::escape(text),
           braces.count(), kMaxPatterns);
    }
    for (std::uint64_t index = 0; index < braces.count(); ++index) {
      patterns.emplace_back(braces.name(index));
    }
  }
  return patterns;
}

bool any_matches(const std::vector<GlobPattern>& patterns, std::string_view path, bool is_folder) {
  return std::ranges::any_of(
      patterns, [&](const GlobPattern& pattern) { return pattern.matches(path, is_folder); });
}

}  // namespace

GlobPattern::GlobPattern(std::string_view text)
    : parts_(split(text)), folders_only_(text.ends_with('/')) {
  if (parts_.empty()) {
    fail("the pattern \"{}\" has no name; expected one such as \"*.gif\" or \"drafts/\"",
         io::escape(text));
  }
  if (text.substr(0, text.size() - 1).find('/') == std::string_view::npos) {
    parts_.insert(parts_.begin(), std::string(kAnyFolders));  // a single name matches at any depth
  }
}

bool GlobPattern::matches(std::string_view path, bool is_folder) const {
  if (folders_only_ && !is_folder) {
    return false;
  }
  const std::vector<std::string> names = split(path);
  // After a mismatch, the match resumes at the last "**", which then covers one more folder.
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t part = 0;
  std::size_t name = 0;
  std::size_t last_any = kNone;
  std::size_t resume_name = 0;
  while (name < names.size()) {
    if (part < parts_.size() && parts_[part] == kAnyFolders) {
      last_any = part++;
      resume_name = name;
    } else if (part < parts_.size() &&
               ::fnmatch(parts_[part].c_str(), names[name].c_str(), FNM_CASEFOLD) == 0) {
      ++part;
      ++name;
    } else if (last_any != kNone) {
      part = last_any + 1;
      name = ++resume_name;
    } else {
      return false;
    }
  }
  while (part < parts_.size() && parts_[part] == kAnyFolders) {
    ++part;
  }
  return part == parts_.size();
}

FileFilter::FileFilter(const InputOptions& options)
    : reads_hidden_(options.hidden),
      exclude_patterns_(expand(options.exclude)),
      include_patterns_(expand(options.include)) {}

FileFilter::Verdict FileFilter::folder(const Verdict& parent, std::string_view path) const {
  Verdict verdict = parent;
  if (!parent.left_out.empty()) {
    return verdict;
  }
  if (any_matches(exclude_patterns_, path, true)) {
    verdict.left_out = kExcludedKind;
  } else if (!reads_hidden_) {
    const std::string_view name = base_name(path);
    verdict.left_out = folder_kind(name);
    if (verdict.left_out.empty() && name.starts_with('.')) {
      verdict.left_out = kHiddenKind;
    }
  }
  verdict.included = parent.included || any_matches(include_patterns_, path, true);
  return verdict;
}

std::string_view FileFilter::file(const Verdict& parent, std::string_view path,
                                  bool has_input_extension) const {
  if (!parent.left_out.empty()) {
    return parent.left_out;
  }
  if (any_matches(exclude_patterns_, path, false)) {
    return kExcludedKind;
  }
  const std::string_view name = base_name(path);
  const std::string_view kind = file_kind(name);
  if (kind == kSystemKind) {
    return kind;
  }
  if (!reads_hidden_ && name.starts_with('.')) {
    return kHiddenKind;
  }
  if (!has_input_extension) {
    return kind == kImageKind ? kExcludedKind : kind;  // an image that --image-key does not select
  }
  return parent.included || any_matches(include_patterns_, path, false) ? "" : kExcludedKind;
}

std::string_view FileFilter::member(std::string_view path, bool has_input_extension) const {
  const std::vector<std::string> parts = split(path);
  Verdict verdict = top();
  std::string prefix;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    prefix += (part == 0 ? "" : "/") + parts[part];
    if (part + 1 == parts.size()) {
      return file(verdict, prefix, has_input_extension);
    }
    if (parts[part] != "..") {
      verdict = folder(verdict, prefix);
    }
  }
  return has_input_extension ? "" : kOtherKind;
}

}  // namespace fovea::pipeline
