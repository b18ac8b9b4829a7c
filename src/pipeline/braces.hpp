// Brace patterns in input names: x-{00000..00099}.tar, {a,b}.tar, as quoted on a command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fovea::pipeline {

/// A name with brace groups, expanded one name at a time, so that a wide range takes no memory.
/// `{0..9}` counts (both ends included, downwards when the first is larger; leading zeros set the
/// width), `{a,b,}` takes each alternative; the last group varies fastest, as in a shell. Braces
/// that hold neither are plain text.
class BracePattern {
 public:
  /// Throws fovea::Error when groups are nested, or when there are more than 10^9 names.
  explicit BracePattern(std::string_view pattern);

  /// Returns the number of names; 1 when there is no group.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] bool has_groups() const { return has_groups_; }
  /// Returns the name with number `index`, which is less than count().
  [[nodiscard]] std::string name(std::uint64_t index) const;

 private:
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::size_t width = 0;
    [[nodiscard]] std::uint64_t count() const {
      return (first < last ? last - first : first - last) + 1;
    }
  };
  using Alternatives = std::vector<std::string>;  // one alternative for plain text
  using Part = std::variant<Alternatives, Range>;

  [[nodiscard]] static std::uint64_t part_count(const Part& part);
  static bool parse_range(std::string_view body, Range& range);

  std::vector<Part> parts_;
  std::uint64_t count_ = 1;
  bool has_groups_ = false;
};

}  // namespace fovea::pipeline
