// Lenient access to JSON objects from other programs: the value of a field that is missing or has
// another type is 0 or empty.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace fovea::lab {

[[nodiscard]] inline double number_in(const nlohmann::ordered_json& json, const char* key) {
  const auto match = json.find(key);
  return match != json.end() && match->is_number() ? match->get<double>() : 0.0;
}

[[nodiscard]] inline std::string text_in(const nlohmann::ordered_json& json, const char* key,
                                         const std::string& otherwise = {}) {
  const auto match = json.find(key);
  return match != json.end() && match->is_string() ? match->get<std::string>() : otherwise;
}

[[nodiscard]] inline const nlohmann::ordered_json& array_in(const nlohmann::ordered_json& json,
                                                            const char* key) {
  static const auto empty = nlohmann::ordered_json::array();
  const auto match = json.find(key);
  return match != json.end() && match->is_array() ? *match : empty;
}

[[nodiscard]] inline const nlohmann::ordered_json& object_in(const nlohmann::ordered_json& json,
                                                             const char* key) {
  static const auto empty = nlohmann::ordered_json::object();
  const auto match = json.find(key);
  return match != json.end() && match->is_object() ? *match : empty;
}

}  // namespace fovea::lab
