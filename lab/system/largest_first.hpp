// A stable sort in descending order. std::ranges::stable_sort is avoided since libstdc++ allocates
// its buffer with a deprecated function.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>

namespace fovea::lab {

template <typename Range, typename Projection = std::identity>
void sort_largest_first(Range& range, Projection projection = {}) {
  for (auto next = range.begin(); next != range.end(); ++next) {
    const auto place = std::ranges::upper_bound(range.begin(), next, std::invoke(projection, *next),
                                                std::greater{}, projection);
    std::rotate(place, next, std::next(next));
  }
}

}  // namespace fovea::lab
