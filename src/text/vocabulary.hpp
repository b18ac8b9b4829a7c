// A vocabulary: its pieces of text, and how texts are cut into them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

/// Largest file with a vocabulary. tokenizer.json of Gemma's 256,000 pieces has 34 MB, and
/// tokenizer.model 4 MB.
inline constexpr std::size_t kMaxVocabularyBytes = std::size_t{128} << 20;

/// Limits of a vocabulary that is accepted: they bound what cutting a text may cost.
inline constexpr std::size_t kMaxPieces = std::size_t{1} << 20;
inline constexpr std::size_t kMaxPieceBytes = 1024;
/// Pieces of kUserDefined that may begin with the same characters, one within the other: for so
/// many SentencePiece has room (google/sentencepiece@0292e58 src/normalizer.cc, PrefixMatch).
inline constexpr std::size_t kMaxNested = 64;

/// What a piece is for, numbered as in SentencePiece's ModelProto.
enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,      ///< stands for characters that are in no piece
  kControl = 3,      ///< never found in a text: "<eos>"
  kUserDefined = 4,  ///< found first, wherever a text has it
  kUnused = 5,       ///< made by merging, then taken apart again
  kByte = 6,         ///< "<0x0A>": a byte of a character that is in no piece
};

struct Piece {
  std::string text;
  float score = 0.0F;
  PieceType type = PieceType::kNormal;
};

/// What SentencePiece's ModelProto says (google/sentencepiece@0292e58
/// src/sentencepiece_model.proto), as far as cutting texts depends on it. A piece's id is its
/// position.
struct Vocabulary {
  /// Numbered as in TrainerSpec.
  enum class Algorithm : std::uint8_t {
    kUnigram = 1,  ///< the pieces with the largest sum of scores
    kBpe = 2,      ///< neighbours are merged, the pair with the largest score first
  };
  std::vector<Piece> pieces;
  std::size_t spare = 0;  // pieces at the end that no text becomes and the file does not have
  Algorithm algorithm = Algorithm::kUnigram;
  bool byte_fallback = false;
  bool space_as_suffix = false;
  // How characters are replaced before a text is cut: SentencePiece's compiled form, or nothing.
  std::string charsmap{};
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

/// Throws fovea::Error, which begins with `file`, when the vocabulary breaks a limit or a rule on
/// which SentencePiece relies: it trusts its models, also where they make it read out of bounds.
void check_vocabulary(const Vocabulary& vocabulary, std::string_view file);

/// What check_vocabulary() does with the compiled rules by which SentencePiece replaces characters
/// before it cuts a text: throws unless following them keeps within `charsmap`, for SentencePiece
/// follows them without a check. Empty ones, which replace nothing, pass.
void check_charsmap(std::string_view charsmap, std::string_view file);

/// Id of the piece of kUnknown, of which check_vocabulary() lets there be one.
[[nodiscard]] std::int32_t unknown_piece(const Vocabulary& vocabulary);

/// Id of the piece with this text, or -1. Looks through all of them.
[[nodiscard]] std::int32_t find_piece(const Vocabulary& vocabulary, std::string_view text);

/// The piece of a byte: "<0x0A>".
[[nodiscard]] std::string byte_piece(std::uint8_t byte);

}  // namespace fovea::text
