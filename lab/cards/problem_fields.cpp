// Parses the fields of a problem such as "m=4099,n=1728".
#include "lab/cards/problem_fields.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include "core/error.hpp"

namespace fovea::lab {

ProblemFields::ProblemFields(std::string_view text) {
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), field.size() + 1));
    const std::size_t equals = field.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == field.size()) {
      fail_usage("cannot parse the problem: '{}' is not of the form name=value", field);
    }
    const std::string_view name = field.substr(0, equals);
    if (find(name) != nullptr) {
      fail_usage("the problem sets {} twice", name);
    }
    fields_.push_back({std::string(name), std::string(field.substr(equals + 1))});
  }
}

ProblemFields::Field* ProblemFields::find(std::string_view name) {
  const auto match = std::ranges::find(fields_, name, &Field::name);
  return match == fields_.end() ? nullptr : &*match;
}

bool ProblemFields::take(std::string_view name, std::int64_t& value, const FieldRange& range) {
  known_.emplace_back(name);
  Field* const field = find(name);
  if (field == nullptr) {
    return false;
  }
  field->taken = true;
  const char* const end = field->value.data() + field->value.size();
  const auto [last, error] = std::from_chars(field->value.data(), end, value);
  if (error != std::errc{} || last != end || value < range.min || value > range.max ||
      value % range.step != 0) {
    fail_usage(
        "the problem's {} = {} is not a {} from {} to {}", name, field->value,
        range.step == 1 ? std::string("whole number") : fmt::format("multiple of {}", range.step),
        range.min, range.max);
  }
  return true;
}

bool ProblemFields::take(std::string_view name, DType& value, std::initializer_list<DType> types) {
  known_.emplace_back(name);
  Field* const field = find(name);
  if (field == nullptr) {
    return false;
  }
  field->taken = true;
  const auto* const match = std::ranges::find_if(
      types, [&](DType type) { return std::string_view(to_string(type)) == field->value; });
  if (match == types.end()) {
    std::vector<std::string_view> names;
    std::ranges::transform(types, std::back_inserter(names),
                           [](DType type) { return std::string_view(to_string(type)); });
    fail_usage("the problem's {} = {} is not one of: {}", name, field->value,
               fmt::join(names, ", "));
  }
  value = *match;
  return true;
}

void ProblemFields::finish(std::string_view card) const {
  const auto unknown = std::ranges::find(fields_, false, &Field::taken);
  if (unknown != fields_.end()) {
    fail_usage("problems of {} have no field '{}'; there are: {}", card, unknown->name,
               fmt::join(known_, ", "));
  }
}

void require_size(std::string_view tensor, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMax = std::int64_t{1} << 32;
  if (rows > kMax / columns) {
    fail_usage("the problem's {} is too large: {} x {} elements, at most {} are allowed", tensor,
               rows, columns, kMax);
  }
}

}  // namespace fovea::lab
