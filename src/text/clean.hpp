// Cleaning of texts before tokenisation. All texts must be well-formed UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace fovea::text {

/// Lower-cases each character regardless of its neighbours, as `Lowercase` of Hugging Face's
/// tokenizers.
[[nodiscard]] std::string lower(std::string_view text);

/// The same, but a sigma at the end of a word becomes a final sigma, as in Python's str.lower().
/// (Mappings are of Unicode 17, the properties for sigma of Unicode 14; other versions of Python
/// may differ.)
[[nodiscard]] std::string lower_words(std::string_view text);

/// Removes the characters of Python's string.punctuation: all ASCII punctuation.
[[nodiscard]] std::string without_punctuation(std::string_view text);

/// Replaces each run of white space by one space and trims both ends. White space is as defined by
/// Python's str.isspace().
[[nodiscard]] std::string collapse_spaces(std::string_view text);

/// Applies the three functions above in this order, as `canonicalize_text` of transformers'
/// SiglipTokenizer.
[[nodiscard]] std::string canonicalize(std::string_view text);

}  // namespace fovea::text
