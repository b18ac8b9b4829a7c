// Fields of the JSON that Fovea writes for itself, read back strictly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace fovea::pipeline {

/// Parses text of at most a few levels. Throws fovea::Error unless it is a JSON object.
[[nodiscard]] nlohmann::ordered_json parse_flat_object(std::string_view text);

// Each throws fovea::Error naming the key when it is missing or of another kind.
[[nodiscard]] const nlohmann::ordered_json& read_object(const nlohmann::ordered_json& object,
                                                        const char* key);
/// A whole number that is not negative and at most `limit`.
[[nodiscard]] std::uint64_t read_count(const nlohmann::ordered_json& object, const char* key,
                                       std::uint64_t limit = UINT64_MAX);
[[nodiscard]] bool read_flag(const nlohmann::ordered_json& object, const char* key);
[[nodiscard]] const std::string& read_text(const nlohmann::ordered_json& object, const char* key);
/// 16 hexadecimal digits.
[[nodiscard]] std::uint64_t read_hash(const nlohmann::ordered_json& object, const char* key);

/// As read_hash reads it.
[[nodiscard]] std::string format_hash(std::uint64_t value);

}  // namespace fovea::pipeline
