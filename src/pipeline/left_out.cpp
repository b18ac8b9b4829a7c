// Counts files by kind, and words the message for inputs without any image.
#include "pipeline/left_out.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/text.hpp"
#include "pipeline/file_kinds.hpp"
#include "pipeline/output_files.hpp"

namespace fovea::pipeline {
namespace {

constexpr std::size_t kMaxExtensionsShown = 6;
constexpr std::size_t kMaxLinksShown = 3;

std::string member_extension(std::string_view name) {
  const std::string_view base = name.substr(name.find_last_of('/') + 1);
  const std::size_t dot = base.find('.');  // the first dot, as for --image-key
  return dot == std::string_view::npos ? "no extension" : std::string(base.substr(dot + 1));
}

}  // namespace

void LeftOut::add(std::string_view kind) {
  const auto entry = counts_.find(kind);
  ++(entry != counts_.end() ? entry->second : counts_[std::string(kind)]);
}

void LeftOut::add_file(std::string_view kind, std::string_view path) {
  add(kind);
  if (first_tar_.empty() && kind == kArchiveKind && has_tar_extension(path)) {
    first_tar_ = path;
  }
}

void LeftOut::add_member(std::string_view kind, std::string_view name) {
  add(kind);
  if (member_extensions_.size() <= kMaxExtensionsShown) {
    std::string extension = member_extension(name);
    if (std::ranges::find(member_extensions_, extension) == member_extensions_.end()) {
      member_extensions_.push_back(std::move(extension));
    }
  }
}

void LeftOut::add_linked_folder(std::string_view folder) {
  add(kLinkedKind);
  if (linked_folders_.size() < kMaxLinksShown) {
    linked_folders_.emplace_back(folder);
  }
}

void LeftOut::report_to(JobReport& report, const JobControl& control) const {
  report.left_out = counts_;
  if (!linked_folders_.empty() && control.on_note) {
    const std::uint64_t more = counts_.find(kLinkedKind)->second - linked_folders_.size();
    control.on_note(fmt::format("{}{} {}: the images in {} are read once, by the other name",
                                io::escape(fmt::format("{}", fmt::join(linked_folders_, ", "))),
                                more > 0 ? fmt::format(" and {} more", more) : "",
                                linked_folders_.size() > 1
                                    ? "lead to folders that are read by other names"
                                    : "leads to a folder that is read by another name",
                                linked_folders_.size() > 1 ? "them" : "it"));
  }
}

bool LeftOut::is_output_folder(const struct stat& folder) const {
  struct stat info{};
  const auto name = is_array_file(output_) ? output_.parent_path() : output_;
  return !output_.empty() && ::stat(name.empty() ? "." : name.c_str(), &info) == 0 &&
         info.st_dev == folder.st_dev && info.st_ino == folder.st_ino;
}

bool LeftOut::is_output(std::string_view name) const {
  return is_output_file(output_, name);
}

void LeftOut::fail_without_images(const InputOptions& input) const {
  std::string text = "there are no images among the inputs";
  if (!counts_.empty()) {
    text += "; left out: " + describe(counts_);
  }
  if (!first_tar_.empty()) {
    const std::size_t slash = first_tar_.find_last_of('/');
    const std::string pattern =
        first_tar_.substr(0, slash + 1) + "*" + first_tar_.substr(first_tar_.find('.', slash));
    text += fmt::format("; archives in folders are read only if you name them: {}",
                        io::escape(pattern));
  }
  if (!member_extensions_.empty()) {
    std::vector<std::string> listed_extensions = member_extensions_;
    if (listed_extensions.size() > kMaxExtensionsShown) {
      listed_extensions.back() = "...";
    }
    text += fmt::format("; {}members of archives end in {}",
                        input.image_key.empty()
                            ? ""
                            : fmt::format("no member has the {}, ", option_words("image-key")),
                        io::escape(fmt::format("{}", fmt::join(listed_extensions, ", "))));
  }
  if (counts_.contains(kHiddenKind) || counts_.contains(kThumbnailKind)) {
    text += fmt::format("; {} reads hidden files and thumbnails", option_words("hidden"));
  }
  fail("{}", text);
}

}  // namespace fovea::pipeline

namespace fovea {

std::string describe(const FileCounts& files) {
  std::vector<std::pair<std::string, std::uint64_t>> kinds(files.begin(), files.end());
  std::ranges::sort(kinds, [](const auto& left, const auto& right) {
    return left.second != right.second ? left.second > right.second : left.first < right.first;
  });
  std::string text;
  for (auto& [kind, count] : kinds) {
    // The singular of "archives" is "archive", but a kind may be an extension, such as "heics".
    if (count == 1 && kind.ends_with('s') && pipeline::file_kind("." + kind) != kind) {
      kind.pop_back();
    }
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  return text;
}

}  // namespace fovea
