// Fields of the JSON that Fovea writes and later reads back, with strict types.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace fovea::pipeline {

// Each function throws fovea::Error naming the key when it is missing or has another type.
[[nodiscard]] const nlohmann::json& read_value(const nlohmann::json& object, const char* key);
[[nodiscard]] const nlohmann::json& read_object(const nlohmann::json& object, const char* key);
/// Reads an integer from 0 to `limit`.
[[nodiscard]] std::uint64_t read_count(const nlohmann::json& object, const char* key,
                                       std::uint64_t limit = UINT64_MAX);
[[nodiscard]] bool read_flag(const nlohmann::json& object, const char* key);
[[nodiscard]] const std::string& read_text(const nlohmann::json& object, const char* key);
/// Reads a hash of 16 hexadecimal digits.
[[nodiscard]] std::uint64_t read_hash(const nlohmann::json& object, const char* key);

/// Formats a hash for read_hash().
[[nodiscard]] std::string format_hash(std::uint64_t value);

/// Writes fields. A template that lists the fields of a record works with it and with FieldReader.
class FieldWriter {
 public:
  explicit FieldWriter(nlohmann::ordered_json& json) : json_(json) {}

  void flag(const char* key, bool value) const { json_[key] = value; }
  void count(const char* key, std::uint64_t value) const { json_[key] = value; }
  void count_if_any(const char* key, std::uint64_t value) const {
    if (value > 0) {
      count(key, value);
    }
  }
  void hash(const char* key, std::uint64_t value) const { json_[key] = format_hash(value); }

 private:
  nlohmann::ordered_json& json_;
};

class FieldReader {
 public:
  explicit FieldReader(const nlohmann::json& json) : json_(json) {}

  void flag(const char* key, bool& value) const { value = read_flag(json_, key); }
  void count(const char* key, std::uint64_t& value) const { value = read_count(json_, key); }
  void count_if_any(const char* key, std::uint64_t& value) const {
    value = json_.contains(key) ? read_count(json_, key) : 0;
  }
  void hash(const char* key, std::uint64_t& value) const { value = read_hash(json_, key); }

 private:
  const nlohmann::json& json_;
};

}  // namespace fovea::pipeline
