// The compiled rules by which SentencePiece replaces characters before it cuts a text.
#pragma once

#include <string_view>

namespace fovea::text {

/// Throws fovea::Error, which begins with `file`, unless following the rules keeps within
/// `charsmap`: SentencePiece follows them without a check. Empty ones, which replace nothing, pass.
void check_charsmap(std::string_view charsmap, std::string_view file);

}  // namespace fovea::text
