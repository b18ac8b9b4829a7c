// Loads a model's vocabulary and passes it to SentencePiece.
#include "text/tokenizer.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>
#include <sentencepiece_processor.h>

#include "core/error.hpp"
#include "core/utf8.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/text.hpp"
#include "text/clean.hpp"
#include "text/model_proto.hpp"
#include "text/tokenizer_json.hpp"
#include "text/vocabulary.hpp"

namespace fovea::text {
namespace {

constexpr std::string_view kSpacePiece =
    "\xe2\x96\x81";  // U+2581, which stands for a space in SentencePiece

struct Source {
  std::string file;  // the name of the file in messages
  Vocabulary vocabulary;

  /// Whether the vocabulary is that of SigLIP rather than SigLIP 2.
  [[nodiscard]] bool is_siglip_1() const {
    return vocabulary.algorithm == Vocabulary::Algorithm::kUnigram;
  }
};

Source read_source(const std::filesystem::path& folder) {
  const auto read = [&](const char* name, auto parse) -> std::optional<Source> {
    const std::filesystem::path path = folder / name;
    if (!io::exists(path)) {
      return std::nullopt;
    }
    std::string file = io::escape(path.native());
    Vocabulary vocabulary = parse(io::read_small_file(path, kMaxVocabularyBytes), file);
    return Source{.file = std::move(file), .vocabulary = std::move(vocabulary)};
  };
  for (const bool is_siglip_1 : {false, true}) {
    if (auto found = read(is_siglip_1 ? "spiece.model" : "tokenizer.model", read_model_proto)) {
      if (found->is_siglip_1() != is_siglip_1) {
        fail("{}: expected the {}; that of {}", found->file,
             is_siglip_1 ? "unigram vocabulary of SigLIP, found a BPE one"
                         : "BPE vocabulary of SigLIP 2, found a unigram one",
             is_siglip_1 ? "SigLIP 2 is called tokenizer.model" : "SigLIP is called spiece.model");
      }
      return *std::move(found);
    }
  }
  if (auto json = read("tokenizer.json", read_tokenizer_json)) {
    return *std::move(json);
  }
  fail(
      "{}: the model has no tokenizer: none of tokenizer.model, spiece.model and tokenizer.json is "
      "there; copy it from the source of the model",
      io::escape(folder.native()));
}

/// Reads a special token from tokenizer_config.json: a string, or an object with "content".
std::string special_token(const nlohmann::json& config, const char* key, const char* default_token,
                          const std::string& file) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) {
    return default_token;
  }
  const nlohmann::json content =
      found->is_object() ? found->value("content", nlohmann::json()) : *found;
  if (!content.is_string()) {
    fail("{}: {} is not a string", file, key);
  }
  return content;
}

}  // namespace

struct Tokenizer::Impl {
  /// `config` is the content of `config_file`, tokenizer_config.json.
  Impl(Source source, const nlohmann::json& config, const std::string& config_file)
      : vocabulary(
            static_cast<std::int64_t>(source.vocabulary.pieces.size() - source.vocabulary.spare)),
        is_siglip_1(source.is_siglip_1()) {
    const auto find = [&](const char* key, const char* default_token) {
      const std::string text = special_token(config, key, default_token, config_file);
      const std::int32_t id = find_piece(source.vocabulary, text);
      if (id < 0) {
        fail("{}: the vocabulary has no piece \"{}\", which is its {}", source.file,
             io::printable(text), key);
      }
      return id;
    };
    eos = find("eos_token", is_siglip_1 ? "</s>" : "<eos>");
    pad = find("pad_token", is_siglip_1 ? "</s>" : "<pad>");
    if (is_siglip_1) {
      source.vocabulary.add_dummy_prefix = false;  // as in SiglipTokenizer: see encode_siglip_1()
    }
    load(source);
    if (is_siglip_1) {
      guard = processor.IdToPiece(unknown_piece(source.vocabulary));
      guard_tokens = encode_text(guard).size();
    }
  }

  void load(const Source& source) {
    std::string reason;
    try {
      const auto status = processor.LoadFromSerializedProto(write_model_proto(source.vocabulary));
      if (status.ok()) {
        return;
      }
      reason = status.message();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      reason = error.what();
    }
    fail("{}: SentencePiece rejects the vocabulary: {}", source.file, reason);
  }

  [[nodiscard]] std::vector<int> encode_text(const std::string& text) const {
    std::vector<int> ids;
    const auto status = processor.Encode(text, &ids);
    if (!status.ok()) {
      fail("SentencePiece cannot tokenize a text: {}", status.message());
    }
    return ids;
  }

  /// Follows SiglipTokenizer for SigLIP (transformers@d5ab4d5
  /// models/siglip/tokenization_siglip.py): prepends a space, even if the cleaned text begins with
  /// one. Since SentencePiece would drop leading spaces, the name of the unknown token is put
  /// before them, and its tokens are removed from the result.
  [[nodiscard]] std::vector<int> encode_siglip_1(std::string_view text, TextClean clean) const {
    std::string spaced(kSpacePiece);
    while (!text.empty()) {
      const std::size_t found = text.find(kSpacePiece);
      spaced += text.substr(0, found);
      text.remove_prefix(std::min(text.size(), found));
      if (!text.empty()) {
        spaced += ' ';
        text.remove_prefix(kSpacePiece.size());
      }
    }
    std::vector<int> ids = encode_text(guard + clean_text(spaced, clean));
    if (ids.size() >= guard_tokens) {
      ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(guard_tokens));
    }
    return ids;
  }

  [[nodiscard]] std::string clean_text(std::string_view text, TextClean clean) const {
    switch (clean) {
      case TextClean::kAuto:
        break;
      case TextClean::kLower:
        return lower(text);
      case TextClean::kCanonicalize:
        return canonicalize(text);
      case TextClean::kNone:
        return std::string(text);
    }
    fail("invalid TextClean {}", static_cast<int>(clean));
  }

  [[nodiscard]] TextClean trained_clean() const {
    return is_siglip_1 ? TextClean::kCanonicalize : TextClean::kLower;
  }

  [[nodiscard]] std::vector<int> tokenize_text(std::string_view text, TextClean clean) const {
    if (text.size() > kMaxTextBytes) {
      fail("a text of {} bytes is too long (at most {})", text.size(), kMaxTextBytes);
    }
    for (std::size_t position = 0; position < text.size();) {
      const std::size_t length = utf8_length(text.substr(position));
      if (length == 0) {
        fail("a text is not UTF-8: byte {} of \"{}\"; convert it to UTF-8 first", position,
             io::printable(text, io::kMaxNameCharacters));
      }
      position += length;
    }
    clean = clean == TextClean::kAuto ? trained_clean() : clean;
    const std::string collapsed =
        clean == TextClean::kNone ? std::string(text) : collapse_spaces(text);
    return is_siglip_1 ? encode_siglip_1(collapsed, clean)
                       : encode_text(clean_text(collapsed, clean));
  }

  sentencepiece::SentencePieceProcessor processor;
  std::int64_t vocabulary = 0;
  std::int32_t eos = 0;
  std::int32_t pad = 0;
  bool is_siglip_1 = false;
  std::string guard;  // for SigLIP: what encode_siglip_1() prepends to a text
  std::size_t guard_tokens = 0;
};

Tokenizer::Tokenizer(const std::filesystem::path& model_folder) {
  Source source = read_source(model_folder);
  const std::filesystem::path path = model_folder / "tokenizer_config.json";
  const std::string file = io::escape(path.native());
  const nlohmann::json config = io::exists(path)
                                    ? io::parse_json_object(io::read_small_file(path), file)
                                    : nlohmann::json::object();
  impl_ = std::make_unique<Impl>(std::move(source), config, file);
}

Tokenizer::Tokenizer(Vocabulary vocabulary, const std::string& file)
    : impl_(std::make_unique<Impl>(Source{.file = file, .vocabulary = std::move(vocabulary)},
                                   nlohmann::json::object(), file)) {}

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view utf8, std::int64_t length,
                                            TextClean clean) const {
  if (length < 1) {
    fail("invalid number of tokens {}; it must be at least 1", length);
  }
  std::vector<std::int32_t> ids = tokens(utf8, clean);
  const auto size = static_cast<std::size_t>(length);
  ids.resize(std::min(ids.size(), size - 1));
  ids.push_back(impl_->eos);
  ids.resize(size, impl_->pad);
  return ids;
}

std::vector<std::int32_t> Tokenizer::tokens(std::string_view utf8, TextClean clean) const {
  return impl_->tokenize_text(utf8, clean);
}

const std::string& Tokenizer::piece(std::int32_t id) const {
  return impl_->processor.IdToPiece(id);
}

std::int64_t Tokenizer::vocabulary() const {
  return impl_->vocabulary;
}

std::int32_t Tokenizer::eos() const {
  return impl_->eos;
}

std::int32_t Tokenizer::pad() const {
  return impl_->pad;
}

TextClean Tokenizer::trained_clean() const {
  return impl_->trained_clean();
}

}  // namespace fovea::text
