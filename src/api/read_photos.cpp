// Reads files in parallel, and an archive once for all of its members.
#include "api/read_photos.hpp"

#include <map>
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

void read_one(const fs::path& path, std::size_t index, const UsePhoto& use) {
  std::vector<std::byte> bytes;
  MemoryPool::Lease lease;
  std::string error;
  try {
    lease = pipeline::read_file(path.native(), bytes);
  } catch (const Error& problem) {
    rethrow_unless_finding(problem);
    error = problem.what();
  }
  use(index, bytes, error);
}

bool is_file(const std::string& path) {
  std::error_code ignored;  // errors are reported when the file is read
  return fs::is_regular_file(path, ignored);
}

// The part of a member's base name after its first dot, by which the pipeline selects members.
std::string extension_key(const std::string& path) {
  const std::string base = path.substr(path.find_last_of("/#") + 1);
  const std::size_t dot = base.find('.');
  return dot == std::string::npos ? "" : base.substr(dot + 1);
}

// By whole names "x.tar#key.jpg".
using Members = std::multimap<std::string, std::size_t>;

void read_archive(const std::string& archive, Members& members, const UsePhoto& use) {
  std::set<std::string> keys;
  for (const auto& [name, index] : members) {
    keys.insert(extension_key(name));
  }
  std::string image_key;
  for (const std::string& key : keys) {
    image_key += (image_key.empty() ? "" : ";") + key;
  }
  const std::unique_ptr<pipeline::Source> source = pipeline::make_tar_source(archive, image_key);
  pipeline::Item item;
  while (!members.empty() && source->next(item)) {
    const auto [first, last] = members.equal_range(item.name);
    if (first == last) {
      continue;
    }
    source->load(item);
    const bool failed = item.kind == pipeline::Item::Kind::kFailed;
    for (auto member = first; member != last; ++member) {
      use(member->second, failed ? std::span<const std::byte>() : item.bytes,
          failed ? item.error : "");
    }
    members.erase(first, last);
  }
  for (const auto& [name, index] : members) {
    use(index, {}, io::escape(archive) + " has no such member");
  }
}

}  // namespace

// The archive that a path "x.tar#key.jpg" leads into, or "".
std::string archive_of(const std::string& path) {
  for (std::size_t at = path.find('#'); at != std::string::npos; at = path.find('#', at + 1)) {
    if (is_file(path.substr(0, at))) {
      return path.substr(0, at);
    }
  }
  return "";
}

void read_photos(std::span<const fs::path> paths, ThreadPool& pool, const UsePhoto& use) {
  std::vector<std::size_t> files;
  std::map<std::string, Members> archives;
  for (std::size_t index = 0; index < paths.size(); ++index) {
    const std::string& path = paths[index].native();
    const std::string archive = is_file(path) ? "" : archive_of(path);
    if (archive.empty()) {
      files.push_back(index);
    } else {
      archives[archive].emplace(path, index);
    }
  }
  pool.parallel_for(files.size(),
                    [&](std::size_t at, int) { read_one(paths[files[at]], files[at], use); });
  std::vector<std::map<std::string, Members>::iterator> work;
  work.reserve(archives.size());
  for (auto entry = archives.begin(); entry != archives.end(); ++entry) {
    work.push_back(entry);
  }
  pool.parallel_for(work.size(), [&](std::size_t at, int) {
    read_archive(work[at]->first, work[at]->second, use);
  });
}

}  // namespace fovea
