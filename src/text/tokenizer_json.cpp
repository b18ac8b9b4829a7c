// Converts Gemma's tokenizer, as stored by Hugging Face, back to SentencePiece's vocabulary.
#include "text/tokenizer_json.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/utf8.hpp"
#include "io/text.hpp"
#include "text/tokenizer_document.hpp"

namespace fovea::text {
namespace {

using nlohmann::json;

/// Returns the type of a part of the document, such as its normalizer; "none" when it is missing.
std::string component_type(const json& parent, const char* key) {
  const auto part = parent.find(key);
  if (part == parent.end() || part->is_null()) {
    return "none";
  }
  const auto type = part->is_object() ? part->find("type") : part->end();
  return part->is_object() && type != part->end() && type->is_string()
             ? io::printable(type->get_ref<const std::string&>(), io::kMaxNameCharacters)
             : "of an unknown kind";
}

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(TokenizerDocument document, std::string_view file)
      : document_(std::move(document)), file_(file) {}

  Vocabulary read() {
    check_model();
    check_normalizer();
    check_pre_tokenizer();
    add_pieces();
    add_added_tokens();
    add_bytes();
    index_normal();
    add_merges();
    hide_unreachable_pieces();
    check_vocabulary(vocabulary_, file_);
    return std::move(vocabulary_);
  }

 private:
  [[noreturn]] void fail_unsupported(std::string_view problem) const {
    fail("{}: unsupported tokenizer: {}; expected that of Gemma, which SigLIP 2 uses", file_,
         problem);
  }

  [[nodiscard]] const json& model() const { return document_.rest["model"]; }

  void check_model() const {
    if (!document_.rest.is_object() || component_type(document_.rest, "model") != "BPE") {
      fail_unsupported(fmt::format(
          "the model is {}, not BPE",
          document_.rest.is_object() ? component_type(document_.rest, "model") : "none"));
    }
    const std::vector<json> empty{nullptr, "", false, 0.0};  // values that mean absent
    const auto expect = [&](const char* key, const json& expected) {
      const json found = model().value(key, json());
      const bool is_empty = std::ranges::find(empty, found) != empty.end();
      if (expected.is_null() ? !is_empty : found != expected) {
        fail_unsupported(fmt::format("{} of the model is {}, not {}", key,
                                     io::printable(found.dump(), io::kMaxNameCharacters),
                                     expected.dump()));
      }
    };
    expect("byte_fallback", true);
    expect("dropout", nullptr);
    expect("continuing_subword_prefix", nullptr);
    expect("end_of_word_suffix", nullptr);
    expect("ignore_merges", nullptr);
  }

  /// Accepts a normalizer that replaces spaces by "▁". It may also lower-case, as in
  /// Siglip2Tokenizer: texts are cleaned before tokenisation anyway.
  void check_normalizer() const {
    const json normalizer = document_.rest.value("normalizer", json());
    std::vector<json> steps{normalizer};
    if (component_type(document_.rest, "normalizer") == "Sequence") {
      steps.clear();
      for (const json& step : normalizer.value("normalizers", json::array())) {
        steps.push_back(step);
      }
    }
    const json replace = {
        {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xe2\x96\x81"}};
    std::erase_if(steps, [](const json& step) { return step == json{{"type", "Lowercase"}}; });
    if (steps != std::vector<json>{replace}) {
      fail_unsupported(fmt::format("the normalizer is {}, not one that replaces spaces by \"▁\"",
                                   io::printable(normalizer.dump(), io::kMaxNameCharacters)));
    }
  }

  /// Accepts a split at spaces, which has no effect because the normalizer replaces all spaces.
  void check_pre_tokenizer() const {
    const std::string type = component_type(document_.rest, "pre_tokenizer");
    if (type == "none") {
      return;
    }
    const json pattern = document_.rest["pre_tokenizer"].value("pattern", json());
    if (type != "Split" || pattern != json{{"String", " "}}) {
      fail_unsupported(fmt::format("the pre-tokenizer is {}, not a Split at spaces", type));
    }
  }

  void set_piece(std::uint64_t id, std::string text, PieceType type) {
    if (id >= kMaxPieces) {
      fail("{}: piece \"{}\" has id {}; expected less than {}", file_, io::printable(text), id,
           kMaxPieces);
    }
    if (id >= vocabulary_.pieces.size()) {
      vocabulary_.pieces.resize(id + 1);
    }
    Piece& piece = vocabulary_.pieces[id];
    if (!piece.text.empty() && piece.text != text) {
      fail("{}: \"{}\" and \"{}\" have the same id, {}", file_, io::printable(piece.text),
           io::printable(text), id);
    }
    piece.text = std::move(text);
    piece.type = type;
  }

  void add_pieces() {
    vocabulary_.algorithm = Vocabulary::Algorithm::kBpe;
    vocabulary_.byte_fallback = true;
    vocabulary_.add_dummy_prefix = false;
    vocabulary_.remove_extra_spaces = false;
    vocabulary_.pieces.reserve(document_.vocabulary.size());
    for (TokenizerDocument::Entry& entry : document_.vocabulary) {
      set_piece(entry.id, std::move(entry.text), PieceType::kNormal);
    }
  }

  void add_added_tokens() {
    const json tokens = document_.rest.value("added_tokens", json::array());
    const json unknown = model().value("unk_token", json());
    if (!unknown.is_string()) {
      fail_unsupported("the model has no unk_token");
    }
    for (const json& token : tokens) {
      const json content = token.is_object() ? token.value("content", json()) : json();
      const json id = token.is_object() ? token.value("id", json()) : json();
      if (!content.is_string() || !id.is_number_unsigned()) {
        fail("{}: an added token has no content or no id", file_);
      }
      const bool is_special = token.value("special", json()) == true;
      for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
        if (!is_special && token.value(flag, json()) == true) {
          fail_unsupported(
              fmt::format("added token {} has {}", io::printable(content.dump()), flag));
        }
      }
      set_piece(id, content,
                content == unknown ? PieceType::kUnknown
                : is_special       ? PieceType::kControl
                                   : PieceType::kUserDefined);
    }
    for (Piece& piece : vocabulary_.pieces) {
      if (piece.text.empty()) {
        fail("{}: no piece has id {}", file_, &piece - vocabulary_.pieces.data());
      }
      if (piece.text == unknown.get_ref<const std::string&>()) {
        piece.type = PieceType::kUnknown;
      }
    }
  }

  /// GemmaConverter replaces the byte piece of the tab by a tab. SentencePiece requires all byte
  /// pieces, so a missing one is appended, although it is never used.
  void add_bytes() {
    std::vector<bool> has_byte(256);
    std::vector<bool> has_character(128);
    for (Piece& piece : vocabulary_.pieces) {
      if (piece.text.size() == 1 && piece.type == PieceType::kNormal) {
        has_character[static_cast<unsigned char>(piece.text.front()) & 0x7fU] = true;
      }
      if (piece.text.size() == 6 && piece.text.starts_with("<0x") && piece.text.ends_with('>')) {
        for (unsigned byte = 0; byte < 256; ++byte) {
          if (piece.text == byte_piece(static_cast<std::uint8_t>(byte))) {
            piece.type = PieceType::kByte;
            has_byte[byte] = true;
          }
        }
      }
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::string text = byte_piece(static_cast<std::uint8_t>(byte));
      if (!has_byte[byte] && (byte >= 128 || !has_character[byte])) {
        fail_unsupported(fmt::format("the vocabulary has no piece {}", text));
      }
      if (!has_byte[byte]) {
        vocabulary_.pieces.push_back({.text = std::move(text), .type = PieceType::kByte});
        ++vocabulary_.spare;
      }
    }
  }

  void index_normal() {
    normal_ids_.reserve(vocabulary_.pieces.size());
    for (std::size_t id = 0; id < vocabulary_.pieces.size(); ++id) {
      const Piece& piece = vocabulary_.pieces[id];
      if (piece.type == PieceType::kNormal && !normal_ids_.emplace(piece.text, id).second) {
        fail("{}: \"{}\" has two ids", file_, io::printable(piece.text));
      }
    }
  }

  /// Whether both parts of a text are normal pieces. (User-defined pieces are found before merging
  /// and never merged.)
  [[nodiscard]] bool is_pair(std::string_view text, std::size_t left) const {
    return normal_ids_.contains(text.substr(0, left)) && normal_ids_.contains(text.substr(left));
  }

  /// SentencePiece merges any two neighbours that form a piece, the highest score first; the
  /// tokenizers library merges the pairs of a list in its order. The results are equal when the
  /// list contains all pairs, and pairs that form the same piece follow one another.
  void add_merges() {
    is_merged_.assign(vocabulary_.pieces.size(), false);
    std::string_view current;
    std::vector<std::size_t> missing;  // split positions of pairs of `current` not yet seen
    float rank = 0.0F;
    const auto finish_piece = [&] {
      if (!missing.empty()) {
        refuse_merges(current);
      }
    };
    for (const TokenizerDocument::Merge& merge : document_.merges) {
      if (merge.text == current) {
        std::erase(missing, merge.left);
        continue;
      }
      const auto found = normal_ids_.find(merge.text);
      if (found == normal_ids_.end() || !is_pair(merge.text, merge.left)) {
        continue;
      }
      finish_piece();
      const std::size_t id = found->second;
      if (is_merged_[id]) {
        refuse_merges(merge.text);
      }
      is_merged_[id] = true;
      rank -= 1.0F;
      vocabulary_.pieces[id].score = rank;
      current = merge.text;
      for (std::size_t left = utf8_length(current); left < current.size();
           left += utf8_length(current.substr(left))) {
        if (left != merge.left && is_pair(current, left)) {
          missing.push_back(left);
        }
      }
    }
    finish_piece();
  }

  [[noreturn]] void refuse_merges(std::string_view text) const {
    fail_unsupported(fmt::format(
        "the merges of \"{}\" differ from those of SentencePiece, so another trainer made them",
        io::printable(text, io::kMaxNameCharacters)));
  }

  /// Marks pieces that no merge produces as kControl: the tokenizers library never finds them, but
  /// SentencePiece would form them where it can.
  void hide_unreachable_pieces() {
    for (std::size_t id = 0; id < vocabulary_.pieces.size(); ++id) {
      Piece& piece = vocabulary_.pieces[id];
      if (piece.type == PieceType::kNormal && !is_merged_[id] &&
          utf8_length(piece.text) != piece.text.size()) {
        piece.type = PieceType::kControl;
      }
    }
  }

  TokenizerDocument document_;
  std::string_view file_;
  Vocabulary vocabulary_;
  std::unordered_map<std::string_view, std::size_t>
      normal_ids_;               // ids of the pieces of type kNormal
  std::vector<bool> is_merged_;  // whether a merge produces the piece
};

}  // namespace

Vocabulary read_tokenizer_json(std::string_view text, std::string_view file) {
  return TokenizerJsonReader(read_tokenizer_document(text, file), file).read();
}

}  // namespace fovea::text
