// Parses brace patterns into parts; name(i) reads i as a mixed-radix number with a digit per part.
#include "pipeline/braces.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/text.hpp"

namespace fovea::pipeline {
namespace {

constexpr std::uint64_t kMaxNames = 1'000'000'000;

}  // namespace

bool BracePattern::parse_range(std::string_view body, Range& range) {
  const std::size_t dots = body.find("..");
  if (dots == std::string_view::npos) {
    return false;
  }
  const std::string_view first = body.substr(0, dots);
  const std::string_view last = body.substr(dots + 2);
  constexpr std::size_t kMaxDigits = 18;  // so that the count cannot overflow
  const auto first_number = parse_number<std::uint64_t>(first);
  const auto last_number = parse_number<std::uint64_t>(last);
  if (!first_number || !last_number || std::max(first.size(), last.size()) > kMaxDigits) {
    return false;
  }
  range.first = *first_number;
  range.last = *last_number;
  const auto is_padded = [](std::string_view text) {
    return text.size() > 1 && text.front() == '0';
  };
  range.width = is_padded(first) || is_padded(last) ? std::max(first.size(), last.size()) : 0;
  return true;
}

BracePattern::BracePattern(std::string_view pattern) {
  const std::string_view whole_pattern = pattern;
  std::string literal;
  const auto add = [&](Part part) {
    const std::uint64_t count = part_count(part);
    if (count > kMaxNames || count_ > kMaxNames / count) {
      fail("{}: the braces expand to more than {} names", io::escape(whole_pattern), kMaxNames);
    }
    count_ *= count;
    parts_.push_back(std::move(part));
  };
  while (!pattern.empty()) {
    const std::size_t close = pattern.front() == '{' ? pattern.find('}') : std::string_view::npos;
    const std::string_view body =
        close == std::string_view::npos ? std::string_view{} : pattern.substr(1, close - 1);
    Range range;
    const bool is_range = parse_range(body, range);
    if (!is_range && body.find(',') == std::string_view::npos) {
      literal += pattern.front();
      pattern.remove_prefix(1);
      continue;
    }
    if (body.find('{') != std::string_view::npos) {
      fail("{}: nested braces are not supported; give the names one by one",
           io::escape(whole_pattern));
    }
    if (!literal.empty()) {
      add(Alternatives{std::move(literal)});
      literal.clear();
    }
    has_groups_ = true;
    if (is_range) {
      add(range);
    } else {
      Alternatives alternatives;
      for (std::size_t begin = 0; begin <= body.size();) {
        const std::size_t comma = std::min(body.find(',', begin), body.size());
        alternatives.emplace_back(body.substr(begin, comma - begin));
        begin = comma + 1;
      }
      add(std::move(alternatives));
    }
    pattern.remove_prefix(close + 1);
  }
  if (!literal.empty()) {
    add(Alternatives{std::move(literal)});
  }
}

std::uint64_t BracePattern::part_count(const Part& part) {
  if (const auto* range = std::get_if<Range>(&part)) {
    return range->count();
  }
  return std::get<Alternatives>(part).size();
}

std::string BracePattern::name(std::uint64_t index) const {
  std::uint64_t radix = count_;
  std::string text;
  for (const Part& part : parts_) {
    radix /= part_count(part);
    const std::uint64_t digit = index / radix;
    index %= radix;
    if (const auto* range = std::get_if<Range>(&part)) {
      const std::uint64_t value =
          range->first <= range->last ? range->first + digit : range->first - digit;
      text += fmt::format("{:0{}}", value, range->width);
    } else {
      text += std::get<Alternatives>(part)[digit];
    }
  }
  return text;
}

}  // namespace fovea::pipeline
