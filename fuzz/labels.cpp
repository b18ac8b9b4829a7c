// Fuzzes labels and lists of texts: their number must match the input, no label may be empty, and
// values that are not strings must be rejected. An input that begins with 'j' is a list in JSON
// lines, one that begins with 'l' a list of plain lines; others are given as labels directly.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/text_lists.hpp"
#include "fovea/error.hpp"

namespace {

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void check_labels(const std::string& argument, std::size_t limit) {
  const std::vector<std::string> labels = fovea::cli::read_labels(argument);
  check(std::ranges::none_of(labels, &std::string::empty) && labels.size() <= limit);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path folder = [] {
    std::string name = "/dev/shm/fovea-fuzz-XXXXXX";
    return std::filesystem::path(mkdtemp(name.data()));
  }();
  std::string text(reinterpret_cast<const char*>(data), size);
  const char kind = text.empty() ? ' ' : text.front();
  try {
    if (kind != 'j' && kind != 'l') {
      if (text != "-" && (!text.starts_with('@') || text.starts_with("@@"))) {
        check_labels(text, static_cast<std::size_t>(std::ranges::count(text, ',')) + 1);
      }
      return 0;
    }
    text.erase(0, 1);
    const std::string path = (folder / (kind == 'j' ? "list.jsonl" : "list")).string();
    std::ofstream(path, std::ios::binary) << text;
    const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) +
                       (text.empty() || text.ends_with('\n') ? 0 : 1);
    const std::size_t texts = fovea::cli::read_texts({"@" + path}).size();
    check(texts == lines || (texts + 1 == lines && !text.ends_with('\n')));  // a byte order mark
    check_labels("@" + path, lines);
  } catch (const fovea::Error&) {
    return 0;  // rejecting a list is correct
  }
  return 0;
}
