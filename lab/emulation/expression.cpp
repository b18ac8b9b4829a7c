// Evaluates expressions of whole numbers by recursive descent.
#include "lab/emulation/expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <vector>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "io/nearest.hpp"
#include "io/text.hpp"

namespace fovea::emulation {
namespace {

constexpr std::size_t kLongestExpression = 1000;
constexpr int kMaxDepth = 50;  // of parentheses and signs

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::int64_t divided(std::int64_t number, std::int64_t divisor) {
  if (divisor == 0) {
    fail("divides by zero");
  }
  std::int64_t negated = 0;
  if (divisor == -1) {  // the one division that can exceed 64 bits
    if (__builtin_sub_overflow(0, number, &negated)) {
      fail("exceeds 64 bits");
    }
    return negated;
  }
  const std::int64_t quotient = number / divisor;
  return quotient - (number % divisor != 0 && (number < 0) != (divisor < 0) ? 1 : 0);
}

std::int64_t added(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    fail("exceeds 64 bits");
  }
  return sum;
}
std::int64_t multiplied(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    fail("exceeds 64 bits");
  }
  return product;
}
std::int64_t negated(std::int64_t number) {
  return multiplied(number, -1);
}
std::int64_t divided_up(std::int64_t number, std::int64_t divisor) {
  return negated(divided(negated(number), divisor));
}

struct Function {
  std::string_view name;
  std::int64_t (*of)(std::int64_t, std::int64_t);
};
constexpr std::array kFunctions = {
    Function{"min", [](std::int64_t a, std::int64_t b) { return std::min(a, b); }},
    Function{"max", [](std::int64_t a, std::int64_t b) { return std::max(a, b); }},
    Function{"cdiv", divided_up},
    Function{"round_up",
             [](std::int64_t a, std::int64_t b) { return multiplied(divided_up(a, b), b); }},
};

class Parser {
 public:
  Parser(std::string_view text, const Values& values) : rest_(text), values_(values) {}

  std::int64_t whole() {
    const std::int64_t value = sum();
    if (!next_is("")) {
      fail("cannot be read from \"{}\" on", io::printable(std::string(rest_)));
    }
    return value;
  }

 private:
  /// Skips blanks; returns whether the text goes on with `token`, and skips that too. "" stands for
  /// the end.
  bool next_is(std::string_view token) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size()));
    if (token.empty()) {
      return rest_.empty();
    }
    if (!rest_.starts_with(token)) {
      return false;
    }
    rest_.remove_prefix(token.size());
    return true;
  }
  void require(std::string_view token) {
    if (!next_is(token)) {
      fail("lacks a \"{}\" before {}", token, shown_rest());
    }
  }
  [[nodiscard]] std::string shown_rest() const {
    return rest_.empty() ? "its end" : "\"" + io::printable(std::string(rest_)) + "\"";
  }

  std::int64_t sum() {
    std::int64_t value = product();
    while (true) {
      if (next_is("+")) {
        value = added(value, product());
      } else if (next_is("-")) {
        value = added(value, negated(product()));
      } else {
        return value;
      }
    }
  }

  std::int64_t product() {
    std::int64_t value = factor();
    while (true) {
      if (next_is("*")) {
        value = multiplied(value, factor());
      } else if (next_is("//") || next_is("/")) {
        value = divided(value, factor());
      } else if (next_is("%")) {
        const std::int64_t divisor = factor();
        value = added(value, negated(multiplied(divided(value, divisor), divisor)));
      } else {
        return value;
      }
    }
  }

  std::int64_t factor() {
    if (++depth_ > kMaxDepth) {
      fail("is nested too deeply");
    }
    const std::int64_t value = next_is("-") ? negated(factor()) : atom();
    --depth_;
    return value;
  }

  std::int64_t atom() {
    if (next_is("(")) {
      const std::int64_t value = sum();
      require(")");
      return value;
    }
    const auto end =
        std::ranges::find_if(rest_, [](char c) { return !is_letter(c) && !is_digit(c); });
    const std::string_view word = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    if (word.empty()) {
      fail("lacks a number before {}", shown_rest());
    }
    rest_.remove_prefix(word.size());
    if (is_digit(word.front())) {
      return number(word);
    }
    if (next_is("(")) {
      return call(word);
    }
    const auto value = values_.find(word);
    if (value == values_.end()) {
      std::vector<std::string> names;
      std::ranges::transform(values_, std::back_inserter(names),
                             [](const auto& row) { return row.first; });
      fail("has the unknown name {}; the names are {}", word,
           names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    return value->second;
  }

  static std::int64_t number(std::string_view word) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size()) {
      fail("has the number {}, which is not a whole number of at most 64 bits", word);
    }
    return value;
  }

  std::int64_t call(std::string_view name) {
    const auto* const function = std::ranges::find(kFunctions, name, &Function::name);
    if (function == kFunctions.end()) {
      fail("has the unknown function {}; the functions are min, max, cdiv and round_up", name);
    }
    const std::int64_t first = sum();
    require(",");
    const std::int64_t second = sum();
    require(")");
    return function->of(first, second);
  }

  std::string_view rest_;
  const Values& values_;
  int depth_ = 0;
};

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && is_letter(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

std::int64_t evaluate(std::string_view text, const Values& values) {
  if (text.size() > kLongestExpression) {
    fail("an expression must have at most {} characters", kLongestExpression);
  }
  try {
    return Parser(text, values).whole();
  } catch (const Error& error) {
    fail("the expression \"{}\" {}", io::printable(std::string(text)), error.what());
  }
}

}  // namespace fovea::emulation
