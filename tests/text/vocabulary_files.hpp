// Vocabularies for the tests of the tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/model/files.hpp"
#include "text/small_tokenizer.hpp"
#include "text/vocabulary.hpp"

namespace fovea::text {

using model::contains;
using model::error_of;
using model::read_text;
using model::TemporaryFolder;
using model::write_text;

/// A folder with the small tokenizer.
class SmallFolder : public TemporaryFolder {
 public:
  explicit SmallFolder(std::int64_t pieces = kSmallVocabulary) {
    write_small_tokenizer(path(), pieces);
  }
};

/// A BPE vocabulary with all bytes, then `texts`: the first of these are merged first.
inline Vocabulary bpe_of(const std::vector<std::string>& texts) {
  Vocabulary vocabulary{.pieces = {{.text = "<pad>", .type = PieceType::kControl},
                                   {.text = "<eos>", .type = PieceType::kControl},
                                   {.text = "<unk>", .type = PieceType::kUnknown}},
                        .algorithm = Vocabulary::Algorithm::kBpe,
                        .byte_fallback = true,
                        .add_dummy_prefix = false,
                        .remove_extra_spaces = false};
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocabulary.pieces.push_back(
        {.text = byte_piece(static_cast<std::uint8_t>(byte)), .type = PieceType::kByte});
  }
  for (const std::string& text : texts) {
    vocabulary.pieces.push_back(
        {.text = text, .score = -static_cast<float>(vocabulary.pieces.size())});
  }
  return vocabulary;
}

/// A unigram vocabulary as SigLIP's: "<pad>", "</s>", "<unk>", then pieces of these scores.
inline Vocabulary unigram_of(const std::vector<Piece>& pieces) {
  Vocabulary vocabulary{.pieces = {{.text = "<pad>", .type = PieceType::kControl},
                                   {.text = "</s>", .type = PieceType::kControl},
                                   {.text = "<unk>", .type = PieceType::kUnknown}}};
  vocabulary.pieces.insert(vocabulary.pieces.end(), pieces.begin(), pieces.end());
  return vocabulary;
}

}  // namespace fovea::text
