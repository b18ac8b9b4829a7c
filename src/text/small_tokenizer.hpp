// A small tokenizer like Gemma's, for tests and for experiments without a download.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

/// Number of pieces of the small tokenizer, and of rows in the token table of a text tower with
/// random weights. The first pieces are <pad>, <eos>, <bos>, <unk> and <mask>, with ids 0 to 4,
/// followed by the 256 bytes.
inline constexpr std::int64_t kSmallVocabulary = 2048;

/// The training text: lines in lower case, UTF-8.
[[nodiscard]] std::string_view small_corpus();

/// The pieces that byte-pair encoding finds in a text.
struct TrainedPieces {
  std::vector<std::string> merged;  // in the order of merging
  /// The characters of the text, in the order of their code points.
  std::vector<std::string> characters;
};

/// Merges the most frequent pair of neighbours repeatedly, until there are `merges` pieces or no
/// pair is left. Ties are broken by the order of the pairs' bytes. `text` is UTF-8; a word begins
/// with "▁", which stands for the preceding white space, and no piece spans two words.
[[nodiscard]] TrainedPieces train_bpe(std::string_view text, std::size_t merges);

/// The files that write_small_tokenizer() writes.
inline constexpr std::array<std::string_view, 3> kTokenizerFiles{
    "tokenizer.model", "tokenizer.json", "tokenizer_config.json"};

/// Writes kTokenizerFiles to `folder`, which must exist: the same bytes for the same size. The
/// pieces are found by BPE on small_corpus(). SentencePiece reads the first file and transformers'
/// Siglip2Tokenizer the others, which make it end texts with <eos> and pad on the right; both give
/// the ids that Tokenizer gives. Throws fovea::Error when the corpus does not yield this many
/// pieces (1,300 to 2,500 are possible), or when a file cannot be written.
void write_small_tokenizer(const std::filesystem::path& folder,
                           std::int64_t vocabulary_size = kSmallVocabulary);

}  // namespace fovea::text
