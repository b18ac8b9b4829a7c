// PieceIndex: finds pieces of a vocabulary by their text, some millions of times while it is read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "text/vocabulary.hpp"

namespace fovea::text {

/// Ids of pieces by text. The pieces must stay where they are.
class PieceIndex {
 public:
  static constexpr std::int64_t kNone = -1;

  /// Makes an index of no pieces.
  PieceIndex() : slots_(1) {}
  explicit PieceIndex(const std::vector<Piece>& pieces)
      : pieces_(&pieces), slots_(std::bit_ceil(2 * pieces.size() + 1)) {}

  /// False when there is a piece with this text already.
  bool add(std::uint32_t id) {
    const std::string_view text = (*pieces_)[id].text;
    const std::size_t hash = std::hash<std::string_view>{}(text);
    const std::size_t slot = find_slot(text, hash);
    if (slots_[slot].next_id != 0) {
      return false;
    }
    slots_[slot] = {mark_of(hash), id + 1};
    return true;
  }

  [[nodiscard]] std::int64_t find(std::string_view text) const {
    const std::size_t slot = find_slot(text, std::hash<std::string_view>{}(text));
    return static_cast<std::int64_t>(slots_[slot].next_id) - 1;
  }

 private:
  struct Slot {
    std::uint32_t mark = 0;     // a part of the hash: most other texts are told apart by it
    std::uint32_t next_id = 0;  // the id + 1; 0 where the slot is free
  };

  static std::uint32_t mark_of(std::size_t hash) { return static_cast<std::uint32_t>(hash >> 32U); }

  /// Where the text is, or where it would go. At most half of all slots are taken.
  [[nodiscard]] std::size_t find_slot(std::string_view text, std::size_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash & mask;
    while (slots_[slot].next_id != 0 && (slots_[slot].mark != mark_of(hash) ||
                                         (*pieces_)[slots_[slot].next_id - 1].text != text)) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  const std::vector<Piece>* pieces_ = nullptr;
  std::vector<Slot> slots_;
};

}  // namespace fovea::text
