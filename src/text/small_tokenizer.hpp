// A small tokenizer in the manner of Gemma's, to try everything without a download.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

/// Pieces of the small tokenizer: a text tower with random weights has a token table of as many
/// rows. The first are <pad>, <eos>, <bos>, <unk> and <mask>, with ids 0 to 4, then 256 bytes.
inline constexpr std::int64_t kSmallVocabulary = 2048;

/// The text that it is trained on: lines of small letters, UTF-8.
[[nodiscard]] std::string_view small_corpus();

/// Pieces of which a text consists, as byte-pair encoding finds them.
struct TrainedPieces {
  std::vector<std::string> merged;  // in the order in which they were made
  /// Characters of which they were made, in the order of their code points.
  std::vector<std::string> characters;
};

/// Merges the most frequent pair of neighbours again and again, until there are `merges` pieces or
/// no pair is left. Of pairs that are as frequent, the first in the order of their bytes is merged.
/// `text` is UTF-8; a word begins with "▁", which stands for the white space before it, and no
/// piece reaches from one word into the next.
[[nodiscard]] TrainedPieces train_bpe(std::string_view text, std::size_t merges);

/// The files that write_small_tokenizer() writes.
inline constexpr std::array<std::string_view, 3> kTokenizerFiles{
    "tokenizer.model", "tokenizer.json", "tokenizer_config.json"};

/// Writes kTokenizerFiles to `folder`, which must exist: the same bytes for the same size. The
/// pieces are found by BPE on small_corpus(). SentencePiece reads the first file and transformers'
/// Siglip2Tokenizer the others, which make it end texts with <eos> and pad on the right; both give
/// the ids that Tokenizer gives. Throws fovea::Error when the size is not one that the corpus gives
/// (1,300 to 2,500 all do), or a file cannot be written.
void write_small_tokenizer(const std::filesystem::path& folder,
                           std::int64_t vocabulary_size = kSmallVocabulary);

}  // namespace fovea::text
