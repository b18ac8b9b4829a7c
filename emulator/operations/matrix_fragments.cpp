// Fragments of warp-level matrix products: which elements of a matrix the registers of a lane hold.
#include "emulator/operations/matrix_fragments.hpp"

#include <map>
#include <mutex>

#include "emulator/operations/tensor_product.hpp"
#include "emulator/program/lanes.hpp"

namespace emu {
namespace {

std::size_t index_of(const FragmentShape& shape, const FragmentPlace& place) {
  switch (shape.kind) {
    case FragmentKind::kWords:
      return Lines::index(place.line, place.unit, shape.width);
    case FragmentKind::kDoubles:
      return std::size_t{place.line} * shape.width + place.unit;
    default:
      return std::size_t{place.unit} * shape.lines + place.line;
  }
}

}  // namespace

FragmentPlace place_of(const FragmentShape& shape, std::size_t number, std::size_t lane) {
  const std::size_t group = lane / 4;
  const std::size_t member = lane % 4;
  const std::size_t halves = shape.is_wide ? 2 : 1;
  const bool is_sum = shape.kind == FragmentKind::kSums;
  // Lanes of a group hold a unit of a line each, or two of C and D.
  const std::size_t parts = is_sum ? 2 : 1;
  const std::size_t half = number / parts % halves;
  const std::size_t block = number / parts / halves;
  const std::size_t blocks = shape.width / (4 * parts);  // of a line
  const std::size_t line = 8 * halves * (block / blocks) + 8 * half + group;
  const std::size_t unit = 4 * parts * (block % blocks) + parts * member + number % parts;
  return {.line = static_cast<std::uint16_t>(line), .unit = static_cast<std::uint16_t>(unit)};
}

const Fragment& fragment_of(const FragmentShape& shape) {
  static std::map<FragmentShape, Fragment> fragments;
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  Fragment& fragment = fragments[shape];
  if (fragment.index.empty()) {
    fragment.shape = shape;
    for (std::size_t number = 0; number < shape.units(); ++number) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        fragment.places.push_back(place_of(shape, number, lane));
        fragment.index.push_back(
            static_cast<std::uint16_t>(index_of(shape, fragment.places.back())));
      }
    }
  }
  return fragment;
}

}  // namespace emu
