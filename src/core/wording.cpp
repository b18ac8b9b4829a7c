// The wording of the process, which every message asks for.
#include "core/wording.hpp"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

namespace fovea {
namespace {

std::atomic<Wording> chosen_wording = Wording::kProgram;

bool speaks_python() {
  return chosen_wording.load(std::memory_order_relaxed) == Wording::kPython;
}

}  // namespace

void set_wording(Wording wording) {
  chosen_wording = wording;
}

std::string option_words(std::string_view name, std::string_view value) {
  if (!speaks_python()) {
    return value.empty() ? fmt::format("--{}", name) : fmt::format("--{} {}", name, value);
  }
  std::string keyword(name);
  std::ranges::replace(keyword, '-', '_');
  return value.empty() ? keyword : fmt::format("{}=\"{}\"", keyword, value);
}

std::string_view feature_words() {
  return speaks_python() ? "Encoder.features" : "--features last or --features penultimate";
}

std::string pull_words(std::string_view id, std::string_view revision) {
  if (speaks_python()) {
    return revision == "main" ? fmt::format("fovea.pull(\"{}\")", id)
                              : fmt::format("fovea.pull(\"{}\", revision=\"{}\")", id, revision);
  }
  return revision == "main" ? fmt::format("fovea pull {}", id)
                            : fmt::format("fovea pull {} --revision {}", id, revision);
}

std::string missing_shards_words(std::span<const std::uint64_t> numbers, std::uint64_t all,
                                 std::uint64_t count) {
  constexpr std::size_t kMostNamed = 8;
  const std::size_t named = std::min(numbers.size(), kMostNamed);
  std::string names;
  for (std::size_t i = 0; i < named; ++i) {
    const bool is_last = i + 1 == named && named == all;
    names += fmt::format("{}{}/{}", i == 0 ? "" : is_last ? " and " : ", ", numbers[i], count);
  }
  if (named < all) {
    names += fmt::format(" and {} other{}", all - named, all - named == 1 ? "" : "s");
  }
  return all == 0   ? ""
         : all == 1 ? fmt::format("shard {} is missing", names)
                    : fmt::format("shards {} are missing", names);
}

}  // namespace fovea
