// Vocabulary: the pieces of a tokenizer and the settings of tokenisation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

/// Maximum size of a vocabulary file. For Gemma's 256,000 pieces, tokenizer.json has 34 MB and
/// tokenizer.model 4 MB.
inline constexpr std::size_t kMaxVocabularyBytes = std::size_t{128} << 20;

/// Limits for vocabularies, which bound the cost of tokenisation.
inline constexpr std::size_t kMaxPieces = std::size_t{1} << 20;
inline constexpr std::size_t kMaxPieceBytes = 1024;
/// Maximum number of kUserDefined pieces that are prefixes of each other: SentencePiece has room
/// for this many (google/sentencepiece@0292e58 src/normalizer.cc, PrefixMatch).
inline constexpr std::size_t kMaxNested = 64;

/// The type of a piece, numbered as in SentencePiece's ModelProto.
enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,      ///< stands for characters that no piece contains
  kControl = 3,      ///< never matched in a text: "<eos>"
  kUserDefined = 4,  ///< matched first, wherever a text contains it
  kUnused = 5,       ///< formed by merging, then split again
  kByte = 6,         ///< "<0x0A>": a byte of a character that is in no piece
};

struct Piece {
  std::string text;
  float score = 0.0F;
  PieceType type = PieceType::kNormal;
};

/// The contents of SentencePiece's ModelProto (google/sentencepiece@0292e58
/// src/sentencepiece_model.proto), as far as they affect tokenisation. A piece's id is its index.
struct Vocabulary {
  /// Numbered as in TrainerSpec.
  enum class Algorithm : std::uint8_t {
    kUnigram = 1,  ///< the pieces with the largest sum of scores
    kBpe = 2,      ///< neighbours are merged, the pair with the largest score first
  };
  std::vector<Piece> pieces;
  std::size_t spare = 0;  // unused pieces at the end, which the file does not contain
  Algorithm algorithm = Algorithm::kUnigram;
  bool byte_fallback = false;
  bool space_as_suffix = false;
  // Rules by which characters are replaced before tokenisation, in SentencePiece's compiled form,
  // or empty.
  std::string charsmap{};
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

/// Throws fovea::Error, whose message begins with `file`, when the vocabulary exceeds a limit or
/// violates an assumption of SentencePiece, which does not check its models and may read out of
/// bounds.
void check_vocabulary(const Vocabulary& vocabulary, std::string_view file);

/// A part of check_vocabulary(): checks the compiled replacement rules. Throws unless following
/// them stays within `charsmap`, since SentencePiece does not check bounds. Empty rules are valid.
void check_charsmap(std::string_view charsmap, std::string_view file);

/// Id of the only piece of kUnknown; check_vocabulary() ensures that there is one.
[[nodiscard]] std::int32_t unknown_piece(const Vocabulary& vocabulary);

/// Id of the piece with this text, or -1. Takes linear time.
[[nodiscard]] std::int32_t find_piece(const Vocabulary& vocabulary, std::string_view text);

/// Returns the piece of a byte, such as "<0x0A>".
[[nodiscard]] std::string byte_piece(std::uint8_t byte);

}  // namespace fovea::text
