// The text that the small tokenizer is trained on.
#pragma once

#include <string_view>

namespace fovea::text {

/// Lines of small letters, UTF-8.
[[nodiscard]] std::string_view small_corpus();

}  // namespace fovea::text
