// Reads fields with strict types, whereas get<> of nlohmann-json converts between types.
#include "pipeline/json_fields.hpp"

#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fovea::pipeline {

const nlohmann::json& read_value(const nlohmann::json& object, const char* key) {
  const auto entry = object.find(key);
  if (entry == object.end()) {
    fail("\"{}\" is missing", key);
  }
  return *entry;
}

const nlohmann::json& read_object(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = read_value(object, key);
  if (!value.is_object()) {
    fail("\"{}\" is not an object", key);
  }
  return value;
}

std::uint64_t read_count(const nlohmann::json& object, const char* key, std::uint64_t limit) {
  const nlohmann::json& value = read_value(object, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > limit) {
    fail("\"{}\" is not a whole number from 0 to {}", key, limit);
  }
  return value.get<std::uint64_t>();
}

bool read_flag(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = read_value(object, key);
  if (!value.is_boolean()) {
    fail("\"{}\" is neither true nor false", key);
  }
  return value.get<bool>();
}

const std::string& read_text(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = read_value(object, key);
  if (!value.is_string()) {
    fail("\"{}\" is not a string", key);
  }
  return value.get_ref<const std::string&>();
}

std::uint64_t read_hash(const nlohmann::json& object, const char* key) {
  const std::string& text = read_text(object, key);
  const auto value = parse_number<std::uint64_t>(text, 16);
  if (!value || text != format_hash(*value)) {
    fail("\"{}\" is not a hash of 16 hexadecimal digits", key);
  }
  return *value;
}

std::string format_hash(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace fovea::pipeline
