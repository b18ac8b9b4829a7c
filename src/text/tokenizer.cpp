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

constexpr std::string_view kSpacePiece = "\xe2\x96\x81";  // SentencePiece's sign for a space

struct Source {
  std::string file;  // the file, for messages
  Vocabulary vocabulary;

  /// Whether the vocabulary is that of SigLIP rather than SigLIP 2.
  [[nodiscard]] bool is_first() const {
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
  for (const bool is_first : {false, true}) {
    if (auto found = read(is_first ? "spiece.model" : "tokenizer.model", read_model_proto)) {
      if (found->is_first() != is_first) {
        fail("{}: expected the {}; that of {}", found->file,
             is_first ? "unigram vocabulary of SigLIP, found a BPE one"
                      : "BPE vocabulary of SigLIP 2, found a unigram one",
             is_first ? "SigLIP 2 is called tokenizer.model" : "SigLIP is called spiece.model");
      }
      return *std::move(found);
    }
  }
  if (auto json = read("tokenizer.json", read_tokenizer_json)) {
    return *std::move(json);
  }
  fail(
      "{}: the model has no tokenizer: none of tokenizer.model, spiece.model and tokenizer.json is "
      "there; copy it from where the model is from",
      io::escape(folder.native()));
}

/// Reads a special token from tokenizer_config.json: a string, or an object with "content".
std::string special_token(const nlohmann::json& config, const char* key, const char* usual,
                          const std::string& file) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) {
    return usual;
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
        is_first(source.is_first()) {
    const auto find = [&](const char* key, const char* usual) {
      const std::string text = special_token(config, key, usual, config_file);
      const std::int32_t id = find_piece(source.vocabulary, text);
      if (id < 0) {
        fail("{}: the vocabulary has no piece \"{}\", which is its {}", source.file,
             io::printable(text), key);
      }
      return id;
    };
    eos = find("eos_token", is_first ? "</s>" : "<eos>");
    pad = find("pad_token", is_first ? "</s>" : "<pad>");
    if (is_first) {
      source.vocabulary.add_dummy_prefix = false;  // as SiglipTokenizer does: see cut_first()
    }
    load(source);
    if (is_first) {
      guard = processor.IdToPiece(unknown_piece(source.vocabulary));
      guard_tokens = cut_whole(guard).size();
    }
  }

  void load(const Source& source) {
    std::string why;
    try {
      const auto status = processor.LoadFromSerializedProto(write_model_proto(source.vocabulary));
      if (status.ok()) {
        return;
      }
      why = status.message();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      why = error.what();
    }
    fail("{}: SentencePiece refuses the vocabulary: {}", source.file, why);
  }

  [[nodiscard]] std::vector<int> cut_whole(const std::string& text) const {
    std::vector<int> ids;
    const auto status = processor.Encode(text, &ids);
    if (!status.ok()) {
      fail("SentencePiece cannot cut a text into tokens: {}", status.message());
    }
    return ids;
  }

  /// Follows SiglipTokenizer for SigLIP (transformers@d5ab4d5
  /// models/siglip/tokenization_siglip.py): prepends a space, even if the cleaned text begins with
  /// one. Since SentencePiece would drop leading spaces, the name of the unknown token is put
  /// before them, and its tokens are removed from the result.
  [[nodiscard]] std::vector<int> cut_first(std::string_view text, TextClean clean) const {
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
    std::vector<int> ids = cut_whole(guard + cleaned(spaced, clean));
    if (ids.size() >= guard_tokens) {
      ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(guard_tokens));
    }
    return ids;
  }

  [[nodiscard]] std::string cleaned(std::string_view text, TextClean clean) const {
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
    fail("unknown way to clean a text: {}", static_cast<int>(clean));
  }

  [[nodiscard]] TextClean trained_clean() const {
    return is_first ? TextClean::kCanonicalize : TextClean::kLower;
  }

  [[nodiscard]] std::vector<int> cut(std::string_view text, TextClean clean) const {
    if (text.size() > kMaxTextBytes) {
      fail("a text of {} bytes is too long (at most {})", text.size(), kMaxTextBytes);
    }
    for (std::size_t position = 0; position < text.size();) {
      const std::size_t length = utf8_length(text.substr(position));
      if (length == 0) {
        fail("a text is not UTF-8: byte {} of \"{}\"; convert it to UTF-8 first", position,
             io::printable(text, io::kLongestName));
      }
      position += length;
    }
    clean = clean == TextClean::kAuto ? trained_clean() : clean;
    const std::string plain = clean == TextClean::kNone ? std::string(text) : collapse_spaces(text);
    return is_first ? cut_first(plain, clean) : cut_whole(cleaned(plain, clean));
  }

  sentencepiece::SentencePieceProcessor processor;
  std::int64_t vocabulary = 0;
  std::int32_t eos = 0;
  std::int32_t pad = 0;
  bool is_first = false;
  std::string guard;  // for SigLIP: what cut_first() prepends to a text
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
    fail("a text cannot become {} tokens; expected at least 1", length);
  }
  std::vector<std::int32_t> ids = tokens(utf8, clean);
  const auto all = static_cast<std::size_t>(length);
  ids.resize(std::min(ids.size(), all - 1));
  ids.push_back(impl_->eos);
  ids.resize(all, impl_->pad);
  return ids;
}

std::vector<std::int32_t> Tokenizer::tokens(std::string_view utf8, TextClean clean) const {
  return impl_->cut(utf8, clean);
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
