// Trains byte-pair encoding: counts pairs of neighbours in words; each merge updates the counts of
// the words that contain it.
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "core/utf8.hpp"
#include "text/small_tokenizer.hpp"

namespace fovea::text {
namespace {

/// The text of each symbol: first the characters, then the merged pieces.
using Symbols = std::vector<std::string>;

struct Word {
  std::vector<std::uint32_t> symbols;
  std::int64_t count = 0;
};

std::map<std::string, std::int64_t> count_words(std::string_view text) {
  constexpr std::string_view kSpaces = " \n";
  std::map<std::string, std::int64_t> counts;
  for (std::size_t begin = text.find_first_not_of(kSpaces); begin != std::string_view::npos;) {
    const std::size_t end = text.find_first_of(kSpaces, begin);
    ++counts["\xe2\x96\x81" + std::string(text.substr(begin, end - begin))];
    begin = text.find_first_not_of(kSpaces, end);
  }
  return counts;
}

std::vector<std::string> split_characters(std::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    characters.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return characters;
}

class Trainer {
 public:
  explicit Trainer(std::string_view text) {
    const std::map<std::string, std::int64_t> counts = count_words(text);
    std::map<std::string, std::uint32_t> numbers;
    for (const auto& [word, count] : counts) {
      for (const std::string& character : split_characters(word)) {
        numbers.emplace(character, 0);
      }
    }
    for (auto& [character, number] : numbers) {
      number = static_cast<std::uint32_t>(symbols_.size());
      symbols_.push_back(character);
    }
    for (const auto& [word, count] : counts) {
      Word split_word{.symbols = {}, .count = count};
      for (const std::string& character : split_characters(word)) {
        split_word.symbols.push_back(numbers.at(character));
      }
      count_pairs(split_word, 1);
      words_.push_back(std::move(split_word));
    }
  }

  [[nodiscard]] const Symbols& symbols() const { return symbols_; }

  /// Merges the most frequent pair and returns its text; "" when there is none.
  std::string merge_most_frequent() {
    const Pair* most_frequent = nullptr;
    std::int64_t max_count = 0;
    for (const auto& [pair, count] : counts_) {
      if (count > max_count ||
          (count == max_count && pair_texts(pair) < pair_texts(*most_frequent))) {
        most_frequent = &pair;
        max_count = count;
      }
    }
    if (most_frequent == nullptr) {
      return "";
    }
    const Pair pair = *most_frequent;
    symbols_.push_back(symbols_[pair.first] + symbols_[pair.second]);
    for (Word& word : words_) {
      merge(word, pair);
    }
    return symbols_.back();
  }

 private:
  using Pair = std::pair<std::uint32_t, std::uint32_t>;

  [[nodiscard]] std::pair<std::string_view, std::string_view> pair_texts(const Pair& pair) const {
    return {symbols_[pair.first], symbols_[pair.second]};
  }

  void count_pairs(const Word& word, int sign) {
    for (std::size_t index = 1; index < word.symbols.size(); ++index) {
      const auto entry = counts_.try_emplace({word.symbols[index - 1], word.symbols[index]}).first;
      entry->second += sign * word.count;
      if (entry->second == 0) {
        counts_.erase(entry);
      }
    }
  }

  /// Replaces the pair by the newest symbol.
  void merge(Word& word, const Pair& pair) {
    const auto is_pair = [&](std::size_t index) {
      return word.symbols[index] == pair.first && index + 1 < word.symbols.size() &&
             word.symbols[index + 1] == pair.second;
    };
    std::size_t first = 0;
    while (first < word.symbols.size() && !is_pair(first)) {
      ++first;
    }
    if (first == word.symbols.size()) {
      return;
    }
    count_pairs(word, -1);
    std::size_t out = first;
    for (std::size_t index = first; index < word.symbols.size(); ++out) {
      const bool merges = is_pair(index);
      word.symbols[out] =
          merges ? static_cast<std::uint32_t>(symbols_.size() - 1) : word.symbols[index];
      index += merges ? 2 : 1;
    }
    word.symbols.resize(out);
    count_pairs(word, 1);
  }

  Symbols symbols_;
  std::vector<Word> words_;
  std::map<Pair, std::int64_t> counts_;
};

}  // namespace

TrainedPieces train_bpe(std::string_view text, std::size_t merges) {
  Trainer trainer(text);
  TrainedPieces pieces{.merged = {}, .characters = trainer.symbols()};
  std::set<std::string> unique;  // different pairs may form the same piece
  while (pieces.merged.size() < merges) {
    std::string piece = trainer.merge_most_frequent();
    if (piece.empty()) {
      break;
    }
    if (unique.insert(piece).second) {
      pieces.merged.push_back(std::move(piece));
    }
  }
  return pieces;
}

}  // namespace fovea::text
