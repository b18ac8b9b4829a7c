// Reads tokenizer.json with nlohmann's SAX interface.
#include "text/tokenizer_document.hpp"

#include <utility>

#include "core/error.hpp"
#include "io/json.hpp"
#include "io/text.hpp"
#include "text/vocabulary.hpp"

namespace fovea::text {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxMerges = std::size_t{1} << 22;  // Gemma's tokenizer has 580,000
constexpr std::size_t kMaxValues = std::size_t{1} << 18;  // outside the vocabulary and the merges
constexpr std::size_t kMaxKeyDepth = 32;

class Handler : public nlohmann::json_sax<json> {
 public:
  explicit Handler(std::string_view file) : file_(file) {}

  [[nodiscard]] TokenizerDocument take() { return std::move(document_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool binary(binary_t& /*value*/) override { return refuse("unexpected binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (section_ != Section::kVocabulary) {
      return add(value);
    }
    document_.vocabulary.back().id = value;
    has_id_ = true;
    return true;
  }

  bool string(string_t& value) override {
    if (section_ == Section::kMerges) {
      // Older versions write a merge as one string: two pieces separated by a space, which no piece
      // contains.
      const std::size_t space = value.find(' ');
      if (space == std::string::npos || value.find(' ', space + 1) != std::string::npos) {
        return refuse("a merge does not consist of two pieces separated by a space");
      }
      value.erase(space, 1);
      return add_merge(std::move(value), space);
    }
    if (section_ == Section::kPair) {
      left_bytes_ = piece_count_ == 0 ? value.size() : left_bytes_;
      merge_text_ += value;
      return ++piece_count_ <= 2 || refuse("a merge does not consist of two pieces");
    }
    return add(std::move(value));
  }

  bool key(string_t& name) override {
    if (section_ == Section::kVocabulary) {
      check_id();
      has_id_ = false;
      if (document_.vocabulary.size() == kMaxPieces) {
        return refuse("the vocabulary is too long");
      }
      document_.vocabulary.push_back({.text = std::move(name)});
      return true;
    }
    if (open_.back()->contains(name)) {
      return refuse(fmt::format("key \"{}\" appears twice in one object", io::printable(name)));
    }
    key_ = std::move(name);
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (section_ != Section::kRest) {
      return refuse("unexpected object in the vocabulary or the merges");
    }
    if (is_in_model("vocab")) {
      (void)put(json::object());
      section_ = Section::kVocabulary;
      has_id_ = true;
      return true;
    }
    return open(json::object());
  }

  bool end_object() override {
    if (section_ == Section::kVocabulary) {
      check_id();
      section_ = Section::kRest;
      return true;
    }
    open_.pop_back();
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (section_ == Section::kMerges) {
      section_ = Section::kPair;
      piece_count_ = 0;
      return true;
    }
    if (section_ != Section::kRest) {
      return refuse("unexpected array in the vocabulary or in a merge");
    }
    if (is_in_model("merges")) {
      (void)put(json::array());
      section_ = Section::kMerges;
      return true;
    }
    return open(json::array());
  }

  bool end_array() override {
    if (section_ == Section::kPair) {
      section_ = Section::kMerges;
      if (piece_count_ != 2) {
        return refuse("a merge does not consist of two pieces");
      }
      return add_merge(std::exchange(merge_text_, {}), left_bytes_);
    }
    if (section_ == Section::kMerges) {
      section_ = Section::kRest;
      return true;
    }
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    fail("{}: not JSON: error at byte {}", file_, position == 0 ? 0 : position - 1);
  }

 private:
  enum class Section : std::uint8_t { kRest, kVocabulary, kMerges, kPair };

  [[noreturn]] bool refuse(std::string_view reason) const {
    fail("{}: not a usable tokenizer.json: {}", file_, reason);
  }

  /// Whether the value that begins now is the one with this key in "model".
  [[nodiscard]] bool is_in_model(std::string_view name) const {
    return open_.size() == 2 && open_.back() == model_ && key_ == name;
  }

  bool add(json value) {
    (void)put(std::move(value));
    return true;
  }

  json* put(json value) {
    if (section_ == Section::kMerges || section_ == Section::kPair) {
      refuse("a merge has a piece that is not a string");
    }
    if (section_ == Section::kVocabulary) {
      refuse("an id in the vocabulary is not a non-negative integer");
    }
    if (++values_ > kMaxValues) {
      refuse("there are too many values outside the vocabulary and the merges");
    }
    if (open_.empty()) {
      if (!value.is_object()) {
        refuse(fmt::format("expected a JSON object, found {}", value.type_name()));
      }
      document_.rest = std::move(value);
      return &document_.rest;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  bool open(json value) {
    if (open_.size() == kMaxKeyDepth) {
      refuse("it is nested too deeply");
    }
    const bool is_model = open_.size() == 1 && key_ == "model";
    open_.push_back(put(std::move(value)));
    if (is_model) {
      model_ = open_.back();
    }
    return true;
  }

  bool add_merge(std::string text, std::size_t left) {
    if (document_.merges.size() == kMaxMerges) {
      refuse("there are too many merges");
    }
    document_.merges.push_back({std::move(text), static_cast<std::uint32_t>(left)});
    return true;
  }

  void check_id() const {
    if (!has_id_) {
      refuse("an id in the vocabulary is not a non-negative integer");
    }
  }

  std::string_view file_;
  TokenizerDocument document_;
  Section section_ = Section::kRest;
  std::vector<json*> open_;      // objects and lists that the parser is in
  const json* model_ = nullptr;  // the object "model", once begun
  std::string key_;
  std::size_t values_ = 0;
  bool has_id_ = true;          // whether the last entry of the vocabulary has its id
  int piece_count_ = 0;         // pieces seen of the current merge
  std::string merge_text_;      // concatenated pieces of the current merge
  std::size_t left_bytes_ = 0;  // bytes of its first piece
};

}  // namespace

TokenizerDocument read_tokenizer_document(std::string_view text, std::string_view file) {
  io::check_json_text(text, file);
  Handler handler(file);
  try {
    (void)json::sax_parse(text.data(), text.data() + text.size(), &handler);
  } catch (const json::exception& error) {
    fail("{}: not usable JSON: {}", file, error.what());
  }
  return handler.take();
}

}  // namespace fovea::text
