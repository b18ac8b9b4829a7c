// Options and commands in messages, in the wording set for the process.
#include "core/wording.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <utility>

#include <fmt/format.h>

namespace fovea {
namespace {

std::atomic<Wording> current_wording = Wording::kProgram;

Wording wording() {
  return current_wording.load(std::memory_order_relaxed);
}

/// Returns the value of an option in C++ syntax, where some are enumerators.
std::string cpp_value(std::string_view name, std::string value) {
  for (const auto& [option, type] :
       {std::pair{"precision", "Precision"}, {"dtype", "OutputDType"}}) {
    if (name == option) {
      value.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(value.front())));
      return fmt::format("{}::k{}", type, value);
    }
  }
  return fmt::format("\"{}\"", value);
}

}  // namespace

void set_wording(Wording wording) noexcept {
  current_wording = wording;
}

std::string option_words(std::string_view name, std::string_view value) {
  const Wording current = wording();
  if (current == Wording::kProgram) {
    return value.empty() ? fmt::format("--{}", name) : fmt::format("--{} {}", name, value);
  }
  std::string keyword(name);  // the keyword argument in Python, the field in C++ and C
  std::ranges::replace(keyword, '-', '_');
  if (value.empty()) {
    return keyword;
  }
  switch (current) {
    case Wording::kCpp:
      return fmt::format("{} = {}", keyword, cpp_value(name, std::string(value)));
    case Wording::kC:
      return fmt::format("{} \"{}\"", keyword, value);
    default:
      return fmt::format("{}=\"{}\"", keyword, value);
  }
}

std::string listed(std::span<const std::string> words, std::string_view conjunction) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 < words.size() ? ", " : fmt::format(" {} ", conjunction);
    text += words[i];
  }
  return text;
}

std::string_view feature_words() {
  switch (wording()) {
    case Wording::kPython:
      return "Encoder.features";
    case Wording::kCpp:
      return "Encoder::features";
    case Wording::kC:
      return "fovea_features_start";
    default:
      return "--features last or --features penultimate";
  }
}

std::string pull_words(std::string_view id, std::string_view revision) {
  const auto unless_main = [&](std::string_view format) {
    return revision == "main" ? "" : fmt::format(fmt::runtime(format), revision);
  };
  switch (wording()) {
    case Wording::kPython:
      return fmt::format("fovea.pull(\"{}\"{})", id, unless_main(", revision=\"{}\""));
    case Wording::kCpp:
      return fmt::format("fovea::pull({{.id = \"{}\"{}}})", id,
                         unless_main(", .revision = \"{}\""));
    case Wording::kC:
      return fmt::format("fovea_pull(\"{}\", {}, ...)", id,
                         revision == "main" ? "NULL" : fmt::format("\"{}\"", revision));
    default:
      return fmt::format("fovea pull {}{}", id, unless_main(" --revision {}"));
  }
}

std::string missing_shards_words(std::span<const std::uint64_t> numbers, std::uint64_t total,
                                 std::uint64_t count) {
  constexpr std::size_t kMaxListed = 8;
  const std::size_t named = std::min(numbers.size(), kMaxListed);
  std::string names;
  for (std::size_t i = 0; i < named; ++i) {
    const bool is_last = i + 1 == named && named == total;
    names += fmt::format("{}{}/{}", i == 0 ? "" : is_last ? " and " : ", ", numbers[i], count);
  }
  if (named < total) {
    names += fmt::format(" and {} other{}", total - named, total - named == 1 ? "" : "s");
  }
  return total == 0   ? ""
         : total == 1 ? fmt::format("shard {} is missing", names)
                      : fmt::format("shards {} are missing", names);
}

}  // namespace fovea
