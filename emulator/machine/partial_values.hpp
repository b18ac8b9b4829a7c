// Registers and bytes of local memory of which some bits were written and others not, as a load of
// a word finds them at the end of a tile, and as unoptimised code sets one bit field after the
// other. A register or byte counts as initialised as a whole or not at all, so that this is kept
// beside it, for the instructions that take bits apart or put them together.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "emulator/program/lanes.hpp"
#include "emulator/program/program.hpp"

namespace emu {

/// Written bits of values at places, each of a lane: registers, or addresses.
template <typename Place>
class PartialPlaces {
 public:
  /// Keeps which bits of a lane's value were written.
  void keep(Place place, int lane, std::uint64_t value, std::uint64_t written_bits) {
    if (written_bits != 0) {
      values_[{place, lane}] = {value, written_bits};
    } else if (!values_.empty()) {
      values_.erase({place, lane});
    }
  }
  /// Forgets these lanes' values at the places from `first` to before `last`.
  void erase(Place first, Place last, Lanes lanes) {
    for (auto entry = values_.lower_bound({first, 0});
         entry != values_.end() && entry->first.first < last;) {
      entry = (lanes & lane_bit(entry->first.second)) != 0 ? values_.erase(entry) : ++entry;
    }
  }
  /// Keeps what `from` has of these lanes' values at the place, and forgets what was kept of them.
  void replace(const PartialPlaces& from, Place place, Lanes lanes) {
    if (values_.empty() && from.values_.empty()) {
      return;
    }
    for_each_lane(lanes, [&](int lane) {
      const auto entry = from.values_.find({place, lane});
      if (entry != from.values_.end()) {
        values_.insert_or_assign(entry->first, entry->second);
      } else {
        values_.erase({place, lane});
      }
    });
  }
  /// Returns the written bits of the lane's value, which is not initialised as a whole; 0 if the
  /// place has another value by now.
  [[nodiscard]] std::uint64_t written_bits(Place place, int lane, std::uint64_t value) const {
    if (values_.empty()) {
      return 0;
    }
    const auto entry = values_.find({place, lane});
    return entry != values_.end() && entry->second.value == value ? entry->second.written_bits : 0;
  }

 private:
  struct Value {
    std::uint64_t value = 0;
    std::uint64_t written_bits = 0;
  };
  std::map<std::pair<Place, int>, Value> values_;
};

using PartialValues = PartialPlaces<Slot>;
using PartialBytes = PartialPlaces<std::uint64_t>;

}  // namespace emu
