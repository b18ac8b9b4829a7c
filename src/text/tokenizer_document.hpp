// The parts of tokenizer.json: the vocabulary, the merges, and the rest as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace fovea::text {

struct TokenizerDocument {
  struct Entry {
    std::string text;
    std::uint64_t id = 0;
  };
  /// Two pieces that are merged into one.
  struct Merge {
    std::string text;        // both pieces concatenated
    std::uint32_t left = 0;  // bytes of the first piece
  };
  std::vector<Entry> vocabulary;  // "vocab" of "model"
  std::vector<Merge> merges;      // "merges" of "model", in their order
  nlohmann::json rest;            // the document without these lists
};

/// Reads a tokenizer.json as a stream, because it may have a million strings. Throws fovea::Error,
/// whose message begins with `file`, when it is not a JSON object with these lists, when a key
/// appears twice in an object of the rest, or when a list or the rest is too long.
[[nodiscard]] TokenizerDocument read_tokenizer_document(std::string_view text,
                                                        std::string_view file);

}  // namespace fovea::text
