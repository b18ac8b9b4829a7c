// A value in a JSON document together with its path, which every message contains.
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

// Returns the value as messages show it.
std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 60;
  return value.is_object() ? "an object"
         : value.is_array()
             ? fmt::format("an array of {}", value.size())
             : io::printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                             kLongest);
}

}  // namespace

void Field::fail(std::string_view message) const {
  fovea::fail("{}{}{}", path_, path_.empty() ? "" : ": ", message);
}

void Field::expect(bool is_there, std::string_view what) const {
  if (!is_there) {
    fail(fmt::format("{} is expected, not {}", what, shown(value())));
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

void Field::expect_keys(const std::vector<std::string>& known) const {
  for (const std::string& key : keys()) {
    if (std::ranges::find(known, key) == known.end()) {
      const std::string hint = io::did_you_mean(key, known);
      fail(
          fmt::format("there is no field \"{}\" here{}", io::printable(key),
                      hint.empty() ? fmt::format("; there are {}", fmt::join(known, ", ")) : hint));
    }
  }
}

std::optional<Field> Field::find(std::string_view key) const {
  const auto found = value().find(key);
  if (found == value().end()) {
    return std::nullopt;
  }
  return Field(*found, fmt::format("{}{}{}", path_, path_.empty() ? "" : ".", key));
}

Field Field::at(std::string_view key) const {
  const std::optional<Field> found = find(key);
  if (!found) {
    fail(fmt::format("the field \"{}\" is missing", key));
  }
  return *found;
}

std::vector<Field> Field::elements() const {
  expect(value().is_array(), "an array");
  std::vector<Field> fields;
  for (std::size_t i = 0; i < value().size(); ++i) {
    fields.emplace_back(value()[i], fmt::format("{}[{}]", path_, i));
  }
  return fields;
}

const std::string& Field::text() const {
  expect(value().is_string(), "a text");
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

double Field::number() const {
  expect(value().is_number(), "a number");
  return value().get<double>();
}

std::uint64_t Field::whole(std::uint64_t least, std::uint64_t limit) const {
  const bool is_whole = value().is_number_unsigned();
  const std::uint64_t number = is_whole ? value().get<std::uint64_t>() : 0;
  if (!is_whole || number < least || number > limit) {
    fail(fmt::format("a whole number from {} to {} is expected, not {}", least, limit,
                     shown(value())));
  }
  return number;
}

std::vector<std::uint64_t> Field::wholes(std::size_t fewest, std::size_t max_elements,
                                         std::uint64_t least, std::uint64_t limit) const {
  if (value().is_number()) {
    if (fewest > 1) {
      fail(fmt::format("an array of {} numbers is expected", fewest));
    }
    return {whole(least, limit)};
  }
  std::vector<std::uint64_t> numbers;
  for (const Field& element : elements()) {
    numbers.push_back(element.whole(least, limit));
  }
  if (numbers.size() < fewest || numbers.size() > max_elements) {
    fail(fewest == max_elements
             ? fmt::format("{} numbers are expected, not {}", fewest, numbers.size())
             : fmt::format("{} to {} numbers are expected, not {}", fewest, max_elements,
                           numbers.size()));
  }
  return numbers;
}

}  // namespace fovea::emulation
