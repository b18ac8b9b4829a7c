// Small JSON documents, parsed defensively: bounded size and depth, no duplicate keys.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "io/file.hpp"

namespace fovea::io {

/// Largest JSON document that is parsed whole. The files and replies of hubs are under 200 kB;
/// safetensors headers, which may be larger, have their own streaming parser. This bounds memory,
/// too: a value takes at least two bytes of text and at most some hundred bytes of memory.
inline constexpr std::size_t kMaxJsonBytes = kMaxSmallFileBytes;

/// Parses `text`, which must be one JSON object, UTF-8, without duplicate keys, nested at most 32
/// deep. Throws fovea::Error with `file` (as shown to people) and the byte offset.
[[nodiscard]] nlohmann::json parse_json_object(std::string_view text, std::string_view file);

/// Parses any JSON value, whose objects have at most 2000 keys each and keep their order. The
/// caller limits the size of `text`.
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text,
                                                        std::string_view file);

/// Parses like parse_ordered_json(), but returns nlohmann's discarded value instead of throwing.
[[nodiscard]] nlohmann::ordered_json try_parse_ordered_json(std::string_view text);

/// Throws fovea::Error, whose message begins with `file`, when `text` contains a zero byte or
/// begins with a byte order mark. Neither is valid JSON, but nlohmann's lexer treats a zero byte as
/// the end and skips a byte order mark.
void check_json_text(std::string_view text, std::string_view file);

/// Returns "bytes" and "modified_ns" from a line of an index, when it has both.
[[nodiscard]] std::optional<FileStamp> read_stamp(const nlohmann::json& object);

}  // namespace fovea::io
