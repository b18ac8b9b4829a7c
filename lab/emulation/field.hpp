// Field: a value in a JSON document together with its path, which is part of all error messages.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace fovea::emulation {

/// A value in a document, which must outlive it. Unexpected values throw fovea::Error with the
/// path: "launches[0].grid: ...".
class Field {
 public:
  explicit Field(const nlohmann::json& value, std::string path = "")
      : value_(value), path_(std::move(path)) {}

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
};

}  // namespace fovea::emulation
