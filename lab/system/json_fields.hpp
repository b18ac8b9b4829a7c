// Lenient access to JSON objects from other programs: a field that is missing or has another type
// is 0, or empty.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace fovea::lab {

[[nodiscard]] inline double number_in(const nlohmann::ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

[[nodiscard]] inline std::string text_in(const nlohmann::ordered_json& json, const char* key,
                                         const std::string& otherwise = {}) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

[[nodiscard]] inline const nlohmann::ordered_json& array_in(const nlohmann::ordered_json& json,
                                                            const char* key) {
  static const auto kNone = nlohmann::ordered_json::array();
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? *found : kNone;
}

[[nodiscard]] inline const nlohmann::ordered_json& object_in(const nlohmann::ordered_json& json,
                                                             const char* key) {
  static const auto kNone = nlohmann::ordered_json::object();
  const auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : kNone;
}

}  // namespace fovea::lab
