// Checks vocabularies.
#include "text/vocabulary.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::text {
namespace {

void check_nesting(const Vocabulary& vocabulary, std::string_view file) {
  std::vector<std::string_view> user_defined;
  for (const Piece& piece : vocabulary.pieces) {
    if (piece.type == PieceType::kUserDefined) {
      user_defined.emplace_back(piece.text);
    }
  }
  std::ranges::sort(user_defined);
  std::vector<std::string_view>
      prefixes;  // pieces that are prefixes of the current one, and itself
  for (const std::string_view text : user_defined) {
    while (!prefixes.empty() && !text.starts_with(prefixes.back())) {
      prefixes.pop_back();
    }
    prefixes.push_back(text);
    if (prefixes.size() > kMaxNested) {
      fail("{}: more than {} user-defined pieces are prefixes of one another, up to \"{}\"", file,
           kMaxNested, io::printable(text));
    }
  }
}

}  // namespace

void check_vocabulary(const Vocabulary& vocabulary, std::string_view file) {
  if (vocabulary.pieces.empty() || vocabulary.pieces.size() > kMaxPieces) {
    fail("{}: the vocabulary has {} pieces; expected 1 to {}", file, vocabulary.pieces.size(),
         kMaxPieces);
  }
  for (std::size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const Piece& piece = vocabulary.pieces[id];
    if (piece.text.empty() || piece.text.size() > kMaxPieceBytes) {
      fail("{}: piece {} has {} bytes; expected 1 to {}", file, id, piece.text.size(),
           kMaxPieceBytes);
    }
    if (!io::is_utf8(piece.text) || piece.text.find('\0') != std::string::npos) {
      fail("{}: piece {} is not UTF-8 or has a zero byte", file, id);
    }
    if (!std::isfinite(piece.score)) {
      fail("{}: the score of piece {} is not a finite number", file, id);
    }
  }
  const auto unknown = std::ranges::count(vocabulary.pieces, PieceType::kUnknown, &Piece::type);
  if (unknown != 1) {
    fail("{}: the vocabulary has {} unknown pieces; expected 1", file, unknown);
  }
  check_nesting(vocabulary, file);
  check_charsmap(vocabulary.charsmap, file);
}

std::int32_t unknown_piece(const Vocabulary& vocabulary) {
  const auto found = std::ranges::find(vocabulary.pieces, PieceType::kUnknown, &Piece::type);
  return static_cast<std::int32_t>(found - vocabulary.pieces.begin());
}

std::int32_t find_piece(const Vocabulary& vocabulary, std::string_view text) {
  const auto found = std::ranges::find(vocabulary.pieces, text, &Piece::text);
  return found == vocabulary.pieces.end()
             ? -1
             : static_cast<std::int32_t>(found - vocabulary.pieces.begin());
}

std::string byte_piece(std::uint8_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

}  // namespace fovea::text
