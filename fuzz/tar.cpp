// Fuzzes the enumeration of archives: names must be the same with and without reading the members.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "pipeline/source.hpp"

namespace {

std::vector<std::string> names(std::span<const std::byte> archive, bool load) {
  // Limits the members per input, because a hostile archive may hold very many.
  constexpr std::size_t kMaxMembers = 100;
  const auto source = fovea::pipeline::make_tar_source("x.tar", archive, "");
  std::vector<std::string> list;
  fovea::pipeline::Item item;
  while (list.size() < kMaxMembers && source->next(item)) {
    list.push_back(item.name);
    if (load) {
      source->load(item);
    }
  }
  return list;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> archive = std::as_bytes(std::span(data, size));
  // A resumed job skips members instead of reading them, and must count the same ones.
  if (names(archive, true) != names(archive, false)) {
    std::abort();
  }
  return 0;
}
