// Texts as input of a model: how they are cleaned and tokenized.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] fovea {

/// How a text is cleaned before it is tokenized. Models work best with texts cleaned like those
/// that they were trained with.
///
/// White space is defined as in Python's str.isspace(): the characters of Unicode's White_Space and
/// U+001C to U+001F. Except with kNone, runs of it become one space each, and none is left at
/// either end.
enum class TextClean : std::uint8_t {
  /// Cleaning as the model was trained: kLower for SigLIP 2 (Gemma's vocabulary), kCanonicalize for
  /// SigLIP (a folder with spiece.model).
  kAuto,
  /// Lowercase. Each character is replaced by its Unicode lowercase mapping, independent of the
  /// locale
  /// and of its neighbours, as in transformers' Siglip2Tokenizer.
  kLower,
  /// Lowercase and no ASCII punctuation, as in transformers' SiglipTokenizer: "Don't!" becomes
  /// "dont". A Greek sigma that ends a word becomes its final form, as in Python.
  kCanonicalize,
  /// The text is not changed.
  kNone,
};

/// A text as tokens.
struct TokenizedText {
  /// Token ids, as many as the model takes: those of the text, the end token, and padding.
  std::vector<std::int32_t> ids;
  /// The vocabulary's piece for each of `ids`, in UTF-8: "▁cat" for " cat", "<0x0A>" for a byte
  /// without a piece, "<pad>".
  std::vector<std::string> pieces;
  /// Number of tokens of the whole text, without the end token.
  std::int64_t tokens = 0;
  /// Whether some of those did not fit into `ids`.
  bool truncated = false;
};

struct TokenizeOptions {
  std::string model;  ///< as for Encoder; only its tokenizer's files and config.json are needed
  TextClean clean = TextClean::kAuto;
  /// Ids of a text; 0: as many as the model takes, or 64 where there is no config.json.
  std::int64_t length = 0;
};

/// Tokenizes texts for a model's text tower: tokens, the end token, padding on the right. A longer
/// text is truncated so that the end token comes last. The
/// names of special tokens in a text, such as "<eos>", are text like any other.
///
/// Throws fovea::Error when a text is not UTF-8 or longer than 1 MiB, when no length is given and
/// config.json has no text tower, or when the model has no tokenizer or one that is not supported:
/// it has to be tokenizer.model or spiece.model, both of SentencePiece, or a tokenizer.json that
/// was made of Gemma's tokenizer.model.
[[nodiscard]] std::vector<TokenizedText> tokenize(const TokenizeOptions& options,
                                                  std::span<const std::string> texts);

}  // namespace fovea
