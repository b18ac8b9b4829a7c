// Tokenizer: texts to the ids that a text tower takes.
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

/// The longest text that is taken; a text tower sees the first 64 tokens or so of it.
inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;

/// Cuts texts into tokens with SentencePiece. All of its functions may be called by several threads
/// at once.
class Tokenizer {
 public:
  /// Reads the first of these that is in the folder: tokenizer.model (of Gemma: SigLIP 2),
  /// spiece.model (SigLIP), tokenizer.json (Gemma's, as Hugging Face's tokenizers store it). Of
  /// tokenizer_config.json it takes eos_token and pad_token, whose defaults are those of
  /// transformers: "<eos>" and "<pad>" of SigLIP 2, "</s>" and "</s>" of SigLIP. It does not
  /// believe its tokenizer_class: the published folders of SigLIP 2 name GemmaTokenizer, which does
  /// not lower-case. Throws fovea::Error naming the file that is missing, damaged or not supported.
  explicit Tokenizer(const std::filesystem::path& model_folder);
  /// The same on a vocabulary that check_vocabulary() accepts, with the default special tokens: of
  /// SigLIP 2 when it is of BPE, else of SigLIP. Messages begin with `file`.
  Tokenizer(Vocabulary vocabulary, const std::string& file);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Exactly `length` ids: tokens(), eos(), and pad() on the right. Longer texts are cut off after
  /// length - 1 tokens. Throws as tokens() does, and when `length` is less than 1.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view utf8, std::int64_t length,
                                                 TextClean clean = TextClean::kAuto) const;

  /// The tokens of the text alone. Names of special tokens in it ("<eos>") are text like any other.
  /// Throws fovea::Error when it is not UTF-8 or has more than kMaxTextBytes.
  [[nodiscard]] std::vector<std::int32_t> tokens(std::string_view utf8,
                                                 TextClean clean = TextClean::kAuto) const;

  /// The piece of text with this id, which must be of this vocabulary. UTF-8, "▁" for a space.
  [[nodiscard]] const std::string& piece(std::int32_t id) const;

  /// The number of pieces. The token table of a model has at least as many rows.
  [[nodiscard]] std::int64_t vocabulary() const;

  [[nodiscard]] std::int32_t eos() const;
  [[nodiscard]] std::int32_t pad() const;

  /// What kAuto stands for.
  [[nodiscard]] TextClean trained_clean() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace fovea::text
