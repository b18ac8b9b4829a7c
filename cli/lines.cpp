// Text of several lines that others have written: a compiler's, a kernel's.
#include "cli/lines.hpp"

#include <algorithm>

#include "io/text.hpp"

namespace fovea::cli {

std::string printable_lines(std::string_view text, std::string_view kept) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(kept), text.size());
    lines += io::printable(text.substr(0, end), end);
    if (end < text.size()) {
      lines += text[end];
    }
    text = text.substr(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace fovea::cli
