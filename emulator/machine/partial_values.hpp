// Registers of which some bytes were written and others not, as a load of a word finds them at the
// end of a tile. A register counts as initialised as a whole or not at all, so that this is kept
// beside it, for the instructions that take the bytes apart.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "emulator/program/program.hpp"

namespace emu {

class PartialValues {
 public:
  /// Keeps which bits of a lane's value were written.
  void keep(Slot slot, int lane, std::uint64_t value, std::uint64_t written_bits) {
    values_[{slot, lane}] = {value, written_bits};
  }
  /// Returns the written bits of the lane's value, which is not initialised as a whole; 0 if the
  /// register has another value by now.
  [[nodiscard]] std::uint64_t written_bits(Slot slot, int lane, std::uint64_t value) const {
    if (values_.empty()) {
      return 0;
    }
    const auto entry = values_.find({slot, lane});
    return entry != values_.end() && entry->second.value == value ? entry->second.written_bits : 0;
  }

 private:
  struct Value {
    std::uint64_t value = 0;
    std::uint64_t written_bits = 0;
  };
  std::map<std::pair<Slot, int>, Value> values_;
};

}  // namespace emu
