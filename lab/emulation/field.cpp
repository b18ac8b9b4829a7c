// Implements Field, a value in a JSON document whose path is part of all error messages.
#include "lab/emulation/field.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/nearest.hpp"
#include "io/text.hpp"

namespace fovea::emulation {
namespace {

// Returns the value as shown in messages.
std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMaxLength = 60;
  return value.is_object() ? "an object"
         : value.is_array()
             ? fmt::format("an array of {} elements", value.size())
             : io::printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                             kMaxLength);
}

}  // namespace

void Field::fail(std::string_view message) const {
  fovea::fail("{}{}{}", path_, path_.empty() ? "" : ": ", message);
}

void Field::expect(bool condition, std::string_view what) const {
  if (!condition) {
    fail(fmt::format("expected {}, got {}", what, shown(value())));
  }
}

std::vector<std::string> Field::keys() const {
  expect(value().is_object(), "an object");
  std::vector<std::string> keys;
  for (const auto& [key, value] : value().items()) {
    keys.push_back(key);
  }
  return keys;
}

void Field::expect_keys(const std::vector<std::string>& known_keys) const {
  for (const std::string& key : keys()) {
    if (std::ranges::find(known_keys, key) == known_keys.end()) {
      const std::string hint = io::did_you_mean(key, known_keys);
      fail(fmt::format("unknown field \"{}\"{}", io::printable(key),
                       hint.empty()
                           ? fmt::format("; the known fields are {}", fmt::join(known_keys, ", "))
                           : hint));
    }
  }
}

std::optional<Field> Field::find(std::string_view key) const {
  const auto match = value().find(key);
  if (match == value().end()) {
    return std::nullopt;
  }
  return Field(*match, fmt::format("{}{}{}", path_, path_.empty() ? "" : ".", key), values_);
}

Field Field::at(std::string_view key) const {
  const std::optional<Field> member = find(key);
  if (!member) {
    fail(fmt::format("the field \"{}\" is missing", key));
  }
  return *member;
}

std::vector<Field> Field::elements() const {
  expect(value().is_array(), "an array");
  std::vector<Field> fields;
  fields.reserve(value().size());
  for (std::size_t i = 0; i < value().size(); ++i) {
    fields.emplace_back(value()[i], fmt::format("{}[{}]", path_, i), values_);
  }
  return fields;
}

const std::string& Field::text() const {
  expect(value().is_string(), "a string");
  return value().get_ref<const std::string&>();
}

const std::string& Field::choice(const std::vector<std::string>& words) const {
  const std::string& word = text();
  if (std::ranges::find(words, word) == words.end()) {
    fail(fmt::format("{} is not one of {}", shown(value()), fmt::join(words, ", ")));
  }
  return word;
}

bool Field::flag() const {
  expect(value().is_boolean(), "true or false");
  return value().get<bool>();
}

bool Field::may_be_expression() const {
  return values_ != nullptr && value().is_string();
}

std::int64_t Field::evaluated() const {
  try {
    return evaluate(text(), *values_);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    fail(error.what());
  }
}

double Field::number() const {
  if (may_be_expression()) {
    return static_cast<double>(evaluated());
  }
  expect(value().is_number(), "a number");
  return value().get<double>();
}

std::uint64_t Field::whole(std::uint64_t min, std::uint64_t max) const {
  const std::int64_t result = may_be_expression() ? evaluated() : -1;
  const bool is_whole = value().is_number_unsigned() || result >= 0;
  const std::uint64_t number = value().is_number_unsigned() ? value().get<std::uint64_t>()
                                                            : static_cast<std::uint64_t>(result);
  if (!is_whole || number < min || number > max) {
    fail(fmt::format("expected a whole number from {} to {}, got {}", min, max,
                     may_be_expression() ? std::to_string(result) : shown(value())));
  }
  return number;
}

std::vector<std::uint64_t> Field::wholes(std::size_t min_elements, std::size_t max_elements,
                                         std::uint64_t min, std::uint64_t max) const {
  if (value().is_number() || may_be_expression()) {
    if (min_elements > 1) {
      fail(fmt::format("expected an array of {} numbers", min_elements));
    }
    return {whole(min, max)};
  }
  std::vector<std::uint64_t> numbers;
  for (const Field& element : elements()) {
    numbers.push_back(element.whole(min, max));
  }
  if (numbers.size() < min_elements || numbers.size() > max_elements) {
    fail(min_elements == max_elements
             ? fmt::format("expected {} numbers, got {}", min_elements, numbers.size())
             : fmt::format("expected {} to {} numbers, got {}", min_elements, max_elements,
                           numbers.size()));
  }
  return numbers;
}

}  // namespace fovea::emulation
