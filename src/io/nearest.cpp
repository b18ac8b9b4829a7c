// Finds similar words by the restricted Damerau-Levenshtein distance.
#include "io/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fovea::io {
namespace {

constexpr std::size_t kMaxWordLength = 100;
constexpr std::size_t kMinPrefixLength = 3;
constexpr std::size_t kMaxCompletions = 4;

char lower(char letter) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

std::size_t distance(std::string_view left, std::string_view right) {
  const std::size_t width = right.size() + 1;
  std::vector<std::size_t> table((left.size() + 1) * width);
  const auto cost = [&](std::size_t row, std::size_t column) -> std::size_t& {
    return table[row * width + column];
  };
  for (std::size_t row = 0; row <= left.size(); ++row) {
    for (std::size_t column = 0; column <= right.size(); ++column) {
      if (row == 0 || column == 0) {
        cost(row, column) = row + column;
        continue;
      }
      const auto same = [&](std::size_t i, std::size_t j) {
        return lower(left[i]) == lower(right[j]);
      };
      cost(row, column) =
          std::min({cost(row - 1, column) + 1, cost(row, column - 1) + 1,
                    cost(row - 1, column - 1) + (same(row - 1, column - 1) ? 0 : 1)});
      if (row > 1 && column > 1 && same(row - 1, column - 2) && same(row - 2, column - 1)) {
        cost(row, column) = std::min(cost(row, column), cost(row - 2, column - 2) + 1);
      }
    }
  }
  return cost(left.size(), right.size());
}

}  // namespace

std::vector<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  std::vector<std::string> suggestions;
  if (word.size() > kMaxWordLength) {
    return suggestions;
  }
  if (word.size() >= kMinPrefixLength) {
    std::ranges::copy_if(known, std::back_inserter(suggestions),
                         [&](const std::string& candidate) { return candidate.starts_with(word); });
    if (!suggestions.empty()) {
      suggestions.resize(std::min(suggestions.size(), kMaxCompletions));
      return suggestions;
    }
  }
  std::size_t min_edits = (word.size() + 2) / 3;
  for (const std::string& candidate : known) {
    if (candidate.size() > kMaxWordLength) {
      continue;
    }
    const std::size_t edits = distance(word, candidate);
    if (edits < min_edits) {
      suggestions.clear();
      min_edits = edits;
    }
    if (edits == min_edits && edits < candidate.size()) {
      suggestions.push_back(candidate);
    }
  }
  return suggestions;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::vector<std::string> suggestions = nearest(word, known);
  return suggestions.empty() ? ""
                             : fmt::format("; did you mean {}?", fmt::join(suggestions, " or "));
}

}  // namespace fovea::io
