// A value in a JSON document, and where it is: every message about it says so.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace fovea::emulation {

/// A value of a document, which has to live as long. What is not as expected throws fovea::Error
/// "launches[0].grid: ...".
class Field {
 public:
  explicit Field(const nlohmann::json& value, std::string path = "")
      : value_(value), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& value() const { return value_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void fail(std::string_view message) const;

  /// Throws unless it is an object that has no others than these keys.
  void expect_keys(const std::vector<std::string>& known) const;
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] std::optional<Field> find(std::string_view key) const;
  [[nodiscard]] Field at(std::string_view key) const;
  /// The elements of an array.
  [[nodiscard]] std::vector<Field> elements() const;

  [[nodiscard]] const std::string& text() const;
  /// One of these words.
  [[nodiscard]] const std::string& choice(const std::vector<std::string>& words) const;
  [[nodiscard]] bool flag() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] std::uint64_t whole(std::uint64_t least, std::uint64_t limit) const;
  /// Whole numbers, from `fewest` to `most_elements` of them; a number stands for an array of one.
  [[nodiscard]] std::vector<std::uint64_t> wholes(std::size_t fewest, std::size_t most_elements,
                                                  std::uint64_t least, std::uint64_t limit) const;

 private:
  void expect(bool is_there, std::string_view what) const;

  std::reference_wrapper<const nlohmann::json> value_;
  std::string path_;
};

}  // namespace fovea::emulation
