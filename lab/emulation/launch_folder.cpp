// Opens the files that a launch file names.
#include "lab/emulation/launch_folder.hpp"

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::emulation {

namespace fs = std::filesystem;

void LaunchFolder::require_inside(const std::string& name) const {
  const fs::path path(name);
  if (!path.has_filename()) {
    fail("\"{}\" is not the name of a file", io::printable(name));
  }
  if (any_path_) {
    return;
  }
  bool is_inside = path.is_relative();
  for (const fs::path& part : path) {
    is_inside = is_inside && part != "..";
  }
  if (!is_inside) {
    fail("\"{}\" is not below the launch file's folder; use --any-path to allow other files",
         io::printable(name));
  }
}

std::pair<std::shared_ptr<const io::Folder>, std::string> LaunchFolder::place_of(
    const std::string& name) const {
  require_inside(name);
  const fs::path path(name);
  if (any_path_) {
    const fs::path full_path = folder_ / path;
    return {std::make_shared<const io::Folder>(full_path.parent_path()), full_path.filename()};
  }
  auto folder = std::make_shared<const io::Folder>(folder_);
  for (const fs::path& part : path.parent_path()) {
    if (part == "." || part.empty()) {
      continue;
    }
    // open_folder() does not follow links.
    const std::shared_ptr<const io::Folder> inner = folder->open_folder(part);
    if (!inner) {
      fail("{}: there is no such folder", io::escape((*folder / part).native()));
    }
    folder = inner;
  }
  return {folder, path.filename()};
}

io::File LaunchFolder::open(const std::string& name) const {
  const auto [folder, file_name] = place_of(name);
  io::OpenedFile opened = folder->open_to_read(file_name);
  if (!any_path_ && !folder->names(file_name, opened.file)) {
    fail(
        "{}: is a link, which may lead out of the launch file's folder; use --any-path to follow "
        "it",
        io::escape((*folder / file_name).native()));
  }
  keep(opened.info);
  return {std::move(opened), *folder / file_name};
}

}  // namespace fovea::emulation
