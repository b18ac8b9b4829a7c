// Field: a value in a JSON document together with its path, which is part of all error messages.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "lab/emulation/expression.hpp"

namespace fovea::emulation {

/// A value in a document, which must outlive it. Unexpected values throw fovea::Error with the
/// path: "launches[0].grid: ...".
class Field {
 public:
  /// Strings in the place of whole numbers are expressions of `values`, which must outlive the
  /// field, here and in all fields below; without values there are none.
  explicit Field(const nlohmann::json& value, std::string path = "", const Values* values = nullptr)
      : value_(value), path_(std::move(path)), values_(values) {}

  [[nodiscard]] const nlohmann::json& value() const { return value_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void fail(std::string_view message) const;

  /// Throws unless the value is an object that has only these keys.
  void expect_keys(const std::vector<std::string>& known_keys) const;
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] std::optional<Field> find(std::string_view key) const;
  [[nodiscard]] Field at(std::string_view key) const;
  /// Returns the elements of an array.
  [[nodiscard]] std::vector<Field> elements() const;

  [[nodiscard]] const std::string& text() const;
  /// Returns the string if it is one of `words`, else throws.
  [[nodiscard]] const std::string& choice(const std::vector<std::string>& words) const;
  [[nodiscard]] bool flag() const;
  /// Whether the value is a string that may be an expression.
  [[nodiscard]] bool may_be_expression() const;
  /// Returns the value of an expression.
  [[nodiscard]] std::int64_t evaluated() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] std::uint64_t whole(std::uint64_t min, std::uint64_t max) const;
  /// Returns `min_elements` to `max_elements` integers; a single number stands for an array with
  /// one element.
  [[nodiscard]] std::vector<std::uint64_t> wholes(std::size_t min_elements,
                                                  std::size_t max_elements, std::uint64_t min,
                                                  std::uint64_t max) const;

 private:
  void expect(bool condition, std::string_view what) const;

  std::reference_wrapper<const nlohmann::json> value_;
  std::string path_;
  const Values* values_ = nullptr;
};

}  // namespace fovea::emulation
