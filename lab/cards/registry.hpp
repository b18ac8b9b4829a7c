// The cards of each operator, listed for lab/cards/registry.cpp.
#pragma once

#include <vector>

#include "lab/cards/card.hpp"

namespace fovea::lab {

[[nodiscard]] std::vector<Card> gemm_cards();
[[nodiscard]] std::vector<Card> attention_cards();
[[nodiscard]] std::vector<Card> norm_cards();
[[nodiscard]] std::vector<Card> pool_cards();
[[nodiscard]] std::vector<Card> pixels_cards();
[[nodiscard]] std::vector<Card> positions_cards();
[[nodiscard]] std::vector<Card> convert_cards();
[[nodiscard]] std::vector<Card> search_cards();

inline constexpr std::vector<Card> (*kCardsOfOperators[])() = {
    gemm_cards,   attention_cards, norm_cards,    pool_cards,
    pixels_cards, positions_cards, convert_cards, search_cards};

}  // namespace fovea::lab
