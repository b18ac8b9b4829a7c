// Writes of a value that another thread has written again, unordered with them: where a run lets
// such stores pass, the shadow keeps the last one, and the others are here.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "emulator/races/access.hpp"
#include "emulator/races/pages.hpp"

namespace emu::races {

class SameWrites {
 public:
  [[nodiscard]] bool is_empty() const { return words_.empty(); }

  /// Adds a write to a cell of at most a word, unless it is there.
  void add(const Access& write, std::uint64_t offset, std::size_t bytes) {
    std::vector<Write>& writes = words_[offset >> kCellShift];
    const Mask mask = mask_of(offset, offset + bytes, offset >> kCellShift);
    for (Write& known : writes) {
      if (known.access == write) {
        known.mask |= mask;
        return;
      }
    }
    writes.push_back({.access = write, .mask = mask});
  }

  /// Calls find_conflict(write, offset) for all writes to these bytes and returns the first
  /// conflict.
  template <typename FindConflict>
  std::optional<Conflict> check(std::uint64_t offset, std::size_t bytes,
                                FindConflict&& find_conflict) const {
    for (auto word = words_.lower_bound(offset >> kCellShift);
         word != words_.end() && word->first << kCellShift < offset + bytes; ++word) {
      for (const Write& write : word->second) {
        const Mask mask = write.mask & mask_of(offset, offset + bytes, word->first);
        if (mask == 0) {
          continue;
        }
        const std::uint64_t place =
            (word->first << kCellShift) + static_cast<std::uint64_t>(std::countr_zero(mask));
        if (const auto kind = find_conflict(write.access, place)) {
          return Conflict{
              .kind = *kind, .other = write.access, .is_other_write = true, .offset = place};
        }
      }
    }
    return std::nullopt;
  }

  /// Removes the writes to these bytes for which is_covered(write, offset): a later write stands
  /// for them.
  template <typename IsCovered>
  void remove(std::uint64_t offset, std::size_t bytes, IsCovered&& is_covered) {
    for (auto word = words_.lower_bound(offset >> kCellShift);
         word != words_.end() && word->first << kCellShift < offset + bytes;) {
      const Mask mask = mask_of(offset, offset + bytes, word->first);
      const std::uint64_t place = word->first << kCellShift;
      std::erase_if(word->second, [&](Write& write) {
        if (is_covered(write.access, place)) {
          write.mask &= ~mask;
        }
        return write.mask == 0;
      });
      word = word->second.empty() ? words_.erase(word) : std::next(word);
    }
  }

 private:
  using Mask = std::uint32_t;  // bytes of a word
  struct Write {
    Access access{};
    Mask mask = 0;
  };

  // Bytes of a word that are in a range.
  static Mask mask_of(std::uint64_t begin, std::uint64_t end, std::uint64_t word) {
    Mask mask = 0;
    for (std::uint64_t i = 0; i < std::uint64_t{1} << kCellShift; ++i) {
      const std::uint64_t place = (word << kCellShift) + i;
      mask |= Mask{begin <= place && place < end} << i;
    }
    return mask;
  }

  std::map<std::uint64_t, std::vector<Write>> words_;
};

}  // namespace emu::races
