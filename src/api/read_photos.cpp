// Reads files in parallel, and an archive once for all of its members.
#include "api/read_photos.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "io/text.hpp"
#include "pipeline/decode_memory.hpp"
#include "pipeline/read_file.hpp"
#include "pipeline/source.hpp"

namespace fovea {
namespace fs = std::filesystem;
namespace {

void read_photo_file(const fs::path& path, std::size_t index, const pipeline::Limits& limits,
                     const UsePhoto& use) {
  std::vector<std::byte> bytes;
  MemoryPool::Lease lease;
  std::string error;
  try {
    lease = pipeline::read_file(path.native(), bytes, limits);
  } catch (const Error& problem) {
    rethrow_unless_finding(problem);
    error = problem.what();
  }
  use(index, {bytes, error, limits.decoding()});
}

bool is_file(const std::string& path) {
  std::error_code ignored;  // errors are reported when the file is read
  return fs::is_regular_file(path, ignored);
}

// Indices of photos by their full names, such as "x.tar#key.jpg".
using Members = std::multimap<std::string, std::size_t>;

void read_archive(const std::string& archive, Members& members, const pipeline::Limits& limits,
                  const UsePhoto& use) {
  std::unordered_set<std::string> names;
  for (const auto& [name, index] : members) {
    names.insert(name.substr(archive.size() + 1));
  }
  const std::unique_ptr<pipeline::Source> source =
      pipeline::make_tar_source(archive, std::move(names));
  pipeline::Item item;
  while (!members.empty() && source->next(item)) {
    const auto [first, last] = members.equal_range(item.name);
    if (first == last) {
      continue;
    }
    source->load(item, limits);
    const bool failed = item.kind == pipeline::Item::Kind::kFailed;
    for (auto member = first; member != last; ++member) {
      use(member->second, {failed ? std::span<const std::byte>() : item.bytes,
                           failed ? item.error : "", limits.decoding()});
    }
    members.erase(first, last);
  }
  for (const auto& [name, index] : members) {
    use(index, {{}, io::escape(archive) + " has no such member", {}});
  }
}

}  // namespace

std::string containing_archive(const std::string& path) {
  for (std::size_t separator = path.find('#'); separator != std::string::npos;
       separator = path.find('#', separator + 1)) {
    if (is_file(path.substr(0, separator))) {
      return path.substr(0, separator);
    }
  }
  return "";
}

void read_photos(std::span<const fs::path> paths, ThreadPool& pool, const UsePhoto& use) {
  const std::uint64_t bytes = pipeline::default_decode_memory(pool.threads());
  pipeline::DecodeMemory memory(bytes);
  // The photos have been embedded before, perhaps with another limit on pixels, so only memory
  // limits them here.
  const pipeline::Limits limits = memory.limits(
      std::max(image::kPillowsMaxPixels, static_cast<std::int64_t>(bytes / image::kChannels)));
  std::vector<std::size_t> files;
  std::map<std::string, Members> archives;
  for (std::size_t index = 0; index < paths.size(); ++index) {
    const std::string& path = paths[index].native();
    const std::string archive = is_file(path) ? "" : containing_archive(path);
    if (archive.empty()) {
      files.push_back(index);
    } else {
      archives[archive].emplace(path, index);
    }
  }
  pool.parallel_for(files.size(), [&](std::size_t index, int) {
    read_photo_file(paths[files[index]], files[index], limits, use);
  });
  std::vector<std::map<std::string, Members>::iterator> work;
  work.reserve(archives.size());
  for (auto entry = archives.begin(); entry != archives.end(); ++entry) {
    work.push_back(entry);
  }
  pool.parallel_for(work.size(), [&](std::size_t index, int) {
    read_archive(work[index]->first, work[index]->second, limits, use);
  });
}

}  // namespace fovea
