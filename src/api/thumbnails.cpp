// Reads files in parallel, and an archive once for all of its members.
#include "api/thumbnails.hpp"

#include <cstddef>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "io/text.hpp"
#include "pipeline/read_file.hpp"
#include "pipeline/source.hpp"

namespace fovea {
namespace fs = std::filesystem;
namespace {

using search::Thumbnail;

void read_file(const fs::path& path, Thumbnail& thumbnail) {
  try {
    std::vector<std::byte> bytes;
    const MemoryPool::Lease lease = pipeline::read_file(path.native(), bytes);
    thumbnail = search::make_thumbnail(bytes);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    thumbnail.error = error.what();
  }
}

bool is_file(const std::string& path) {
  std::error_code ignored;  // errors are reported when the file is read
  return fs::is_regular_file(path, ignored);
}

// The archive that a path "x.tar#key.jpg" leads into, or "".
std::string archive_of(const std::string& path) {
  for (std::size_t at = path.find('#'); at != std::string::npos; at = path.find('#', at + 1)) {
    if (is_file(path.substr(0, at))) {
      return path.substr(0, at);
    }
  }
  return "";
}

// The part of a member's base name after its first dot, by which the pipeline selects members.
std::string extension_key(const std::string& path) {
  const std::string base = path.substr(path.find_last_of("/#") + 1);
  const std::size_t dot = base.find('.');
  return dot == std::string::npos ? "" : base.substr(dot + 1);
}

// Members by their whole name "x.tar#key.jpg".
void read_archive(const std::string& archive, std::map<std::string, Thumbnail*>& members) {
  std::set<std::string> keys;
  for (const auto& [name, thumbnail] : members) {
    thumbnail->error = io::escape(archive) + " has no such member";
    keys.insert(extension_key(name));
  }
  std::string image_key;
  for (const std::string& key : keys) {
    image_key += (image_key.empty() ? "" : ";") + key;
  }
  const std::unique_ptr<pipeline::Source> source = pipeline::make_tar_source(archive, image_key);
  pipeline::Item item;
  while (!members.empty() && source->next(item)) {
    const auto found = members.find(item.name);
    if (found == members.end()) {
      continue;
    }
    source->load(item);
    if (item.kind == pipeline::Item::Kind::kFailed) {
      found->second->error = item.error;
    } else {
      *found->second = search::make_thumbnail(item.bytes);
    }
    members.erase(found);
  }
}

}  // namespace

std::map<std::string, Thumbnail> make_thumbnails(const PicturePaths& paths, ThreadPool& pool) {
  std::map<std::string, Thumbnail> thumbnails;
  std::vector<std::pair<fs::path, Thumbnail*>> files;
  std::map<std::string, std::map<std::string, Thumbnail*>> archives;
  for (const auto& [key, path] : paths) {
    Thumbnail* thumbnail = &thumbnails[key];
    const std::string archive = is_file(path) ? "" : archive_of(path);
    if (archive.empty()) {
      files.emplace_back(path, thumbnail);
    } else {
      archives[archive][path] = thumbnail;
    }
  }
  pool.parallel_for(files.size(), [&](std::size_t index, int) {
    read_file(files[index].first, *files[index].second);
  });
  std::vector<std::pair<const std::string, std::map<std::string, Thumbnail*>>*> work;
  work.reserve(archives.size());
  for (auto& entry : archives) {
    work.push_back(&entry);
  }
  pool.parallel_for(work.size(), [&](std::size_t index, int) {
    read_archive(work[index]->first, work[index]->second);
  });
  return thumbnails;
}

}  // namespace fovea
