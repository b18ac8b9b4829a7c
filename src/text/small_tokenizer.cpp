// Trains the small tokenizer, and writes it in the formats of SentencePiece and transformers.
#include "text/small_tokenizer.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/utf8.hpp"
#include "io/atomic_file.hpp"
#include "io/text.hpp"
#include "text/model_proto.hpp"
#include "text/vocabulary.hpp"

namespace fovea::text {
namespace {

/// Returns the printable ASCII characters, one per line. They are always pieces, even if the corpus
/// lacks them.
std::string visible_ascii() {
  std::string text;
  for (char character = '!'; character <= '~'; ++character) {
    text += character;
    text += '\n';
  }
  return text;
}

Vocabulary train_vocabulary(std::int64_t requested_size) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(0, requested_size));
  Vocabulary vocabulary;
  vocabulary.algorithm = Vocabulary::Algorithm::kBpe;
  vocabulary.byte_fallback = true;
  vocabulary.add_dummy_prefix = false;
  vocabulary.remove_extra_spaces = false;
  std::vector<Piece>& pieces = vocabulary.pieces;
  pieces = {{.text = "<pad>", .type = PieceType::kControl},
            {.text = "<eos>", .type = PieceType::kControl},
            {.text = "<bos>", .type = PieceType::kControl},
            {.text = "<unk>", .type = PieceType::kUnknown},
            {.text = "<mask>", .type = PieceType::kControl}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    pieces.push_back(
        {.text = byte_piece(static_cast<std::uint8_t>(byte)), .type = PieceType::kByte});
  }
  const TrainedPieces alphabet = train_bpe(visible_ascii() + std::string(small_corpus()), 0);
  const std::size_t min_size = pieces.size() + alphabet.characters.size();
  const TrainedPieces trained = train_bpe(small_corpus(), size > min_size ? size - min_size : 0);
  if (size != min_size + trained.merged.size()) {
    fail("a small tokenizer cannot have {} pieces; expected {} to {}", size, min_size,
         min_size + train_bpe(small_corpus(), SIZE_MAX).merged.size());
  }
  float score = 0.0F;
  for (const std::vector<std::string>& texts : {trained.merged, alphabet.characters}) {
    for (const std::string& text : texts) {
      pieces.push_back({.text = text, .score = score});
      score -= 1.0F;
    }
  }
  return vocabulary;
}

/// Returns all pairs of pieces that merge into a piece, in the order of the merged pieces, as
/// transformers derives them from a SentencePiece model (transformers@d5ab4d5
/// tokenization_utils_base.py, generate_merges).
std::string merges_json(const Vocabulary& vocabulary) {
  std::set<std::string_view> normal;
  for (const Piece& piece : vocabulary.pieces) {
    if (piece.type == PieceType::kNormal) {
      normal.insert(piece.text);
    }
  }
  std::vector<std::string> merges;
  for (const Piece& piece : vocabulary.pieces) {
    const std::string_view text = piece.text;
    for (std::size_t left = utf8_length(text); normal.contains(text) && left < text.size();
         left += utf8_length(text.substr(left))) {
      if (normal.contains(text.substr(0, left)) && normal.contains(text.substr(left))) {
        merges.push_back(fmt::format("[{}, {}]", io::json_quote(text.substr(0, left)),
                                     io::json_quote(text.substr(left))));
      }
    }
  }
  return fmt::format("{}", fmt::join(merges, ",\n      "));
}

std::string tokenizer_json(const Vocabulary& vocabulary) {
  std::vector<std::string> added;
  std::vector<std::string> ids;
  for (std::size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const Piece& piece = vocabulary.pieces[id];
    ids.push_back(fmt::format("{}: {}", io::json_quote(piece.text), id));
    if (piece.type == PieceType::kControl || piece.type == PieceType::kUnknown) {
      added.push_back(fmt::format(
          R"({{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false, )"
          R"("normalized": false, "special": true}})",
          id, piece.text));
    }
  }
  return fmt::format(R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [
    {}
  ],
  "normalizer": {{
    "type": "Sequence",
    "normalizers": [
      {{"type": "Lowercase"}},
      {{"type": "Replace", "pattern": {{"String": " "}}, "content": "▁"}}
    ]
  }},
  "pre_tokenizer": {{
    "type": "Split",
    "pattern": {{"String": " "}},
    "behavior": "MergedWithPrevious",
    "invert": false
  }},
  "post_processor": {{
    "type": "TemplateProcessing",
    "single": [
      {{"Sequence": {{"id": "A", "type_id": 0}}}},
      {{"SpecialToken": {{"id": "<eos>", "type_id": 0}}}}
    ],
    "pair": [
      {{"Sequence": {{"id": "A", "type_id": 0}}}},
      {{"SpecialToken": {{"id": "<eos>", "type_id": 0}}}},
      {{"Sequence": {{"id": "B", "type_id": 1}}}},
      {{"SpecialToken": {{"id": "<eos>", "type_id": 1}}}}
    ],
    "special_tokens": {{
      "<eos>": {{"id": "<eos>", "ids": [1], "tokens": ["<eos>"]}}
    }}
  }},
  "decoder": {{
    "type": "Sequence",
    "decoders": [
      {{"type": "Replace", "pattern": {{"String": "▁"}}, "content": " "}},
      {{"type": "ByteFallback"}},
      {{"type": "Fuse"}}
    ]
  }},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": "<unk>",
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": true,
    "byte_fallback": true,
    "ignore_merges": false,
    "vocab": {{
      {}
    }},
    "merges": [
      {}
    ]
  }}
}}
)",
                     fmt::join(added, ",\n    "), fmt::join(ids, ",\n      "),
                     merges_json(vocabulary));
}

// padding_side and model_input_names are needed: transformers defaults to the left side and to an
// attention mask.
constexpr std::string_view kTokenizerConfig = R"({
  "bos_token": "<bos>",
  "clean_up_tokenization_spaces": false,
  "eos_token": "<eos>",
  "mask_token": "<mask>",
  "model_input_names": [
    "input_ids"
  ],
  "model_max_length": 64,
  "pad_token": "<pad>",
  "padding_side": "right",
  "processor_class": "SiglipProcessor",
  "tokenizer_class": "Siglip2Tokenizer",
  "unk_token": "<unk>"
}
)";

}  // namespace

void write_small_tokenizer(const std::filesystem::path& folder, std::int64_t vocabulary_size) {
  const Vocabulary vocabulary = train_vocabulary(vocabulary_size);
  const std::string contents[] = {write_model_proto(vocabulary), tokenizer_json(vocabulary),
                                  std::string(kTokenizerConfig)};
  static_assert(std::size(contents) == kTokenizerFiles.size());
  for (std::size_t index = 0; index < kTokenizerFiles.size(); ++index) {
    io::write_file_atomically(folder / kTokenizerFiles[index], contents[index]);
  }
}

}  // namespace fovea::text
