// What is done to a text before it is cut into tokens. All texts here are well-formed UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace fovea::text {

/// Each character in lower case, whatever its neighbours: `Lowercase` of Hugging Face's tokenizers.
[[nodiscard]] std::string lower(std::string_view text);

/// The same, but a sigma that ends a word becomes a final one: Python's str.lower(). (Of Unicode 17
/// and, where a sigma is concerned, 14; another Python may know other letters.)
[[nodiscard]] std::string lower_words(std::string_view text);

/// Removes the characters of Python's string.punctuation, which are all that ASCII has.
[[nodiscard]] std::string without_punctuation(std::string_view text);

/// Each run of white space as one space, and none at either end. White space is what Python's
/// str.isspace() says.
[[nodiscard]] std::string collapse_spaces(std::string_view text);

/// `canonicalize_text` of transformers' SiglipTokenizer: the three above in that order.
[[nodiscard]] std::string canonicalize(std::string_view text);

}  // namespace fovea::text
