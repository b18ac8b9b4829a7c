// Checks SentencePiece's trie of replacement rules by walking it within bounds.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "text/vocabulary.hpp"

namespace fovea::text {
namespace {

static_assert(std::endian::native == std::endian::little);

// Maximum number of matches at one position: SentencePiece stores them in an array of this size
// (google/sentencepiece@0292e58 src/normalizer.h).
constexpr int kMaxMatches = 32;
constexpr int kMaxDepth = 256;  // maximum length in bytes of a text that a rule replaces

/// A node of the trie, which is a double array of Darts-clone (google/sentencepiece@0292e58
/// third_party/darts_clone/darts.h).
class Unit {
 public:
  explicit Unit(std::uint32_t bits) : bits_(bits) {}

  [[nodiscard]] bool has_leaf() const { return ((bits_ >> 8U) & 1U) == 1; }
  [[nodiscard]] std::uint32_t value() const { return bits_ & 0x7fffffffU; }
  [[nodiscard]] std::uint32_t label() const { return bits_ & 0x800000ffU; }
  [[nodiscard]] std::uint32_t offset() const {
    return (bits_ >> 10U) << ((bits_ & (1U << 9U)) >> 6U);
  }

 private:
  std::uint32_t bits_;
};

class CharsmapChecker {
 public:
  CharsmapChecker(std::string_view units, std::string_view replacements, std::string_view file)
      : units_(units),
        count_(units.size() / sizeof(std::uint32_t)),
        replacements_(replacements),
        file_(file),
        max_matches_(count_, kUnknown) {}

  void check() {
    if (count_ == 0) {
      refuse("the trie has no root");
    }
    max_matches_[0] = kOpen;
    if (max_matches_below(at(0).offset(), 0) > kMaxMatches) {
      refuse("too many rules are prefixes of one another");
    }
  }

 private:
  static constexpr int kUnknown = -1;
  static constexpr int kOpen = -2;  // the node is on the current path

  /// Returns the maximum number of rules on any path down from a node. Its child for a byte is at
  /// `position` ^ byte.
  int max_matches_below(std::uint32_t position, int depth) {
    if ((position | 0xffU) >= count_) {
      refuse("a node is out of bounds");
    }
    if (depth > kMaxDepth) {
      refuse("a rule is too long");
    }
    int max_matches = 0;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t child = position ^ byte;
      if (at(child).label() == byte) {
        max_matches = std::max(max_matches, max_matches_from(child, depth + 1));
      }
    }
    return max_matches;
  }

  /// The same, including the rule that ends at `node`. Equal suffixes of rules are shared, so a
  /// node may be visited again.
  int max_matches_from(std::uint32_t node, int depth) {
    if (max_matches_[node] == kOpen) {
      refuse("a node leads back to itself");
    }
    if (max_matches_[node] == kUnknown) {
      max_matches_[node] = kOpen;
      const Unit unit = at(node);
      const std::uint32_t position = node ^ unit.offset();
      if (unit.has_leaf() && (position >= count_ || at(position).value() >= replacements_.size())) {
        refuse("a rule is out of bounds");
      }
      max_matches_[node] = max_matches_below(position, depth) + (unit.has_leaf() ? 1 : 0);
    }
    return max_matches_[node];
  }

  [[nodiscard]] Unit at(std::size_t index) const {
    std::uint32_t bits = 0;
    std::memcpy(&bits, units_.data() + index * sizeof(bits), sizeof(bits));
    return Unit(bits);
  }

  [[noreturn]] void refuse(std::string_view reason) const {
    fail("{}: the rules that replace characters are damaged: {}", file_, reason);
  }

  std::string_view units_;
  std::size_t count_;
  std::string_view replacements_;
  std::string_view file_;
  std::vector<int> max_matches_;  // for each node, once known
};

}  // namespace

void check_charsmap(std::string_view charsmap, std::string_view file) {
  if (charsmap.empty()) {
    return;
  }
  const auto fail_truncated = [&] {
    fail("{}: the rules that replace characters are truncated", file);
  };
  std::uint32_t bytes = 0;  // size of the trie
  if (charsmap.size() <= sizeof(bytes)) {
    fail_truncated();
  }
  std::memcpy(&bytes, charsmap.data(), sizeof(bytes));
  charsmap.remove_prefix(sizeof(bytes));
  // Each rule refers to the offset of a NUL-terminated replacement.
  if (bytes >= charsmap.size() || bytes % sizeof(std::uint32_t) != 0 || charsmap.back() != '\0') {
    fail_truncated();
  }
  CharsmapChecker(charsmap.substr(0, bytes), charsmap.substr(bytes), file).check();
}

}  // namespace fovea::text
