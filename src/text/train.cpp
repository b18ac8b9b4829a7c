// Counts pairs of neighbours in words; each merge changes the counts of the words that have it.
#include "text/train.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "core/utf8.hpp"

namespace fovea::text {
namespace {

using Pair = std::pair<std::string, std::string>;

struct Word {
  std::vector<std::string> symbols;
  std::int64_t count = 0;
};

std::vector<std::string> split_characters(std::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    characters.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return characters;
}

std::vector<Word> split_words(std::string_view text) {
  constexpr std::string_view kSpaces = " \n";
  std::map<std::string, std::int64_t> counts;
  for (std::size_t begin = text.find_first_not_of(kSpaces); begin != std::string_view::npos;) {
    const std::size_t end = text.find_first_of(kSpaces, begin);
    ++counts["\xe2\x96\x81" + std::string(text.substr(begin, end - begin))];
    begin = text.find_first_not_of(kSpaces, end);
  }
  std::vector<Word> words;
  for (const auto& [word, count] : counts) {
    words.push_back({.symbols = split_characters(word), .count = count});
  }
  return words;
}

class Trainer {
 public:
  explicit Trainer(std::vector<Word> words) : words_(std::move(words)) {
    for (const Word& word : words_) {
      count_pairs(word, 1);
    }
  }

  /// Merges the most frequent pair; "" when there is none.
  std::string merge_best() {
    const Pair* best = nullptr;
    std::int64_t most = 0;
    for (const auto& [pair, count] : counts_) {
      if (count > most) {
        best = &pair;
        most = count;
      }
    }
    if (best == nullptr) {
      return "";
    }
    const Pair pair = *best;
    for (Word& word : words_) {
      merge(word, pair);
    }
    return pair.first + pair.second;
  }

 private:
  void count_pairs(const Word& word, int sign) {
    for (std::size_t index = 1; index < word.symbols.size(); ++index) {
      const auto at = counts_.try_emplace({word.symbols[index - 1], word.symbols[index]}).first;
      at->second += sign * word.count;
      if (at->second == 0) {
        counts_.erase(at);
      }
    }
  }

  void merge(Word& word, const Pair& pair) {
    std::vector<std::string> merged;
    for (std::size_t index = 0; index < word.symbols.size(); ++index) {
      const std::string& symbol = word.symbols[index];
      const bool is_pair = symbol == pair.first && index + 1 < word.symbols.size() &&
                           word.symbols[index + 1] == pair.second;
      merged.push_back(is_pair ? symbol + word.symbols[++index] : symbol);
    }
    if (merged.size() < word.symbols.size()) {
      count_pairs(word, -1);
      word.symbols = std::move(merged);
      count_pairs(word, 1);
    }
  }

  std::vector<Word> words_;
  std::map<Pair, std::int64_t> counts_;
};

}  // namespace

TrainedPieces train_bpe(std::string_view text, std::size_t merges) {
  std::vector<Word> words = split_words(text);
  std::set<std::string> characters;
  for (const Word& word : words) {
    characters.insert(word.symbols.begin(), word.symbols.end());
  }
  Trainer trainer(std::move(words));
  TrainedPieces pieces{.merged = {}, .characters = {characters.begin(), characters.end()}};
  std::set<std::string> known;  // another pair may make the same piece
  while (pieces.merged.size() < merges) {
    std::string piece = trainer.merge_best();
    if (piece.empty()) {
      break;
    }
    if (known.insert(piece).second) {
      pieces.merged.push_back(std::move(piece));
    }
  }
  return pieces;
}

}  // namespace fovea::text
