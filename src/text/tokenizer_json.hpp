// Reads tokenizer.json, in which Hugging Face's tokenizers store a whole tokenizer.
#pragma once

#include <string_view>

#include "text/vocabulary.hpp"

namespace fovea::text {

/// Reads the vocabulary of a tokenizer.json that was made of Gemma's tokenizer.model, as
/// transformers does it (transformers@d5ab4d5 convert_slow_tokenizer.py, GemmaConverter): BPE with
/// byte_fallback, spaces replaced by "▁", lower-cased or not. With it SentencePiece gives the same
/// tokens as with the model. Special tokens become kControl, so that a text cannot name them, and
/// other added tokens kUserDefined.
///
/// Throws fovea::Error, whose message begins with `file`, when it is not JSON, when it is another
/// kind of tokenizer (the message names the part), or when it lacks merges that SentencePiece would
/// perform, as in files of Hugging Face's own trainer.
[[nodiscard]] Vocabulary read_tokenizer_json(std::string_view text, std::string_view file);

}  // namespace fovea::text
