// Byte-pair encoding: finds the pieces of which a text consists.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

struct TrainedPieces {
  std::vector<std::string> merged;  // in the order in which they were made
  std::vector<std::string>
      characters;  // of which they were made, in the order of their code points
};

/// Merges the most frequent pair of neighbours again and again, until there are `merges` pieces or
/// no pair is left. Of pairs that are as frequent, the first in the order of their bytes is merged.
/// `text` is UTF-8; a word begins with "▁", which stands for the white space before it, and no
/// piece reaches from one word into the next.
[[nodiscard]] TrainedPieces train_bpe(std::string_view text, std::size_t merges);

}  // namespace fovea::text
