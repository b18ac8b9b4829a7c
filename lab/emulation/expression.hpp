// Expressions of whole numbers, such as "cdiv(n, 128) * 2", in which a problem's fields are names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace fovea::emulation {

/// The fields of a problem, and whatever else expressions may name.
using Values = std::map<std::string, std::int64_t, std::less<>>;

/// Returns whether it can be the name of a value: a letter or underscore, and then also digits.
[[nodiscard]] bool is_name(std::string_view text);

/// Returns an expression's value. There are whole numbers, names, parentheses, the operators
/// + - * / % as in Python (/ rounds down as Python's // does, which is allowed as well), and the
/// functions min, max, cdiv (a division that rounds up) and round_up (to a multiple of the second
/// number). Throws fovea::Error for a mistake in the expression, an unknown name, a division by
/// zero, and numbers beyond 64 bits.
[[nodiscard]] std::int64_t evaluate(std::string_view text, const Values& values);

}  // namespace fovea::emulation
