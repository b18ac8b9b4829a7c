// Tokenizer: converts texts to the token ids of a text tower.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text.hpp"

namespace fovea::text {

struct Vocabulary;

/// Maximum length of a text; a text tower sees only about its first 64 tokens.
inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;

/// Tokenises texts with SentencePiece. Thread-safe.
class Tokenizer {
 public:
  /// Reads the first of these files that the folder contains: tokenizer.model (of Gemma: SigLIP 2),
  /// spiece.model (SigLIP), tokenizer.json (Gemma's, as Hugging Face's tokenizers store it). From
  /// tokenizer_config.json it reads eos_token and pad_token, whose defaults are those of
  /// transformers: "<eos>" and "<pad>" of SigLIP 2, "</s>" and "</s>" of SigLIP. It ignores
  /// tokenizer_class, because the published folders of SigLIP 2 name GemmaTokenizer, which does not
  /// lower-case. Throws fovea::Error naming the file that is missing, damaged or not supported.
  explicit Tokenizer(const std::filesystem::path& model_folder);
  /// Uses a vocabulary accepted by check_vocabulary(), with the default special tokens: those of
  /// SigLIP 2 for BPE, otherwise of SigLIP. Messages begin with `file`.
  Tokenizer(Vocabulary vocabulary, const std::string& file);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Returns exactly `length` ids: tokens(), eos(), and pad() on the right. Longer texts are
  /// truncated after length - 1 tokens. Throws as tokens() does, and when `length` is less than 1.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view utf8, std::int64_t length,
                                                 TextClean clean = TextClean::kAuto) const;

  /// Returns the tokens of the text without special tokens. Names of special tokens in it ("<eos>")
  /// are treated as ordinary text. Throws fovea::Error when it is not UTF-8 or has more than
  /// kMaxTextBytes.
  [[nodiscard]] std::vector<std::int32_t> tokens(std::string_view utf8,
                                                 TextClean clean = TextClean::kAuto) const;

  /// Returns the piece with this id, which must be in the vocabulary. UTF-8, with "▁" for a space.
  [[nodiscard]] const std::string& piece(std::int32_t id) const;

  /// The number of pieces. A model's token table must have at least as many rows.
  [[nodiscard]] std::int64_t vocabulary() const;

  [[nodiscard]] std::int32_t eos() const;
  [[nodiscard]] std::int32_t pad() const;

  /// The cleaning that kAuto stands for.
  [[nodiscard]] TextClean trained_clean() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace fovea::text
