// Checks that the fuzz targets of vocabulary formats share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/error.hpp"
#include "text/tokenizer.hpp"
#include "text/vocabulary.hpp"

namespace fovea {

/// Tokenizes texts, including the end of the input, with the vocabulary that `read` returns, and
/// aborts for ids that are not in the vocabulary. `read` may throw fovea::Error.
template <typename Read>
void cut_texts(std::string_view input, Read read) {
  try {
    const text::Tokenizer tokenizer(read(), "fuzz");
    const std::string tail(input.substr(input.size() - std::min<std::size_t>(input.size(), 100)));
    for (const std::string_view given :
         {std::string_view(
              "A photo of aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
          std::string_view("abc <tag> \xe2\x96\x81\xef\xac\x81\n\n\t"), std::string_view(tail)}) {
      for (const TextClean clean : {TextClean::kAuto, TextClean::kNone}) {
        try {
          const auto ids = tokenizer.encode(given, 64, clean);
          for (const std::int32_t id : ids) {
            // The id of a byte piece that the file lacks lies outside of the vocabulary.
            if (id < 0 || id >= tokenizer.vocabulary() || tokenizer.piece(id).empty()) {
              std::abort();
            }
          }
          if (ids.size() != 64) {
            std::abort();
          }
        } catch (const Error&) {  // not UTF-8
        }
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace fovea
