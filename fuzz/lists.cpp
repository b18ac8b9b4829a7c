// Fuzzes lists of images: each name must be found or rejected, and no byte of a line may be lost.
// The first byte selects the format: 'j' JSON lines, '0' names that end in zero bytes, and any
// other byte plain lines.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "fovea/error.hpp"
#include "fovea/images.hpp"
#include "io/line_reader.hpp"
#include "pipeline/source.hpp"

namespace {

namespace fs = std::filesystem;

// Limits the names per input, because a pattern may expand to millions of them.
constexpr int kMaxNames = 10'000;

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void read_lines(const std::string& path, char delimiter, std::string_view text) {
  std::string joined;
  try {
    fovea::io::LineReader lines(path, delimiter);
    for (std::string line; lines.next(line);) {
      joined += line + delimiter;
    }
  } catch (const fovea::Error&) {
    return;
  }
  // A byte order mark, and a carriage return at the end of a line, are not part of names.
  std::string expected(text);
  if (delimiter == '\n') {
    if (expected.starts_with("\xef\xbb\xbf")) {
      expected.erase(0, 3);
    }
    for (std::size_t position = expected.find("\r\n"); position != std::string::npos;
         position = expected.find("\r\n", position + 1)) {
      expected.erase(position, 1);
    }
    if (expected.ends_with('\r')) {
      expected.pop_back();
      joined.resize(joined.size() - (expected.empty() || expected.ends_with('\n') ? 1 : 0));
    }
  }
  if (!expected.empty() && !expected.ends_with(delimiter)) {
    expected += delimiter;
  }
  check(joined == expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fs::path folder = [] {
    std::string name = "/dev/shm/fovea-fuzz-XXXXXX";
    const fs::path made = mkdtemp(name.data());
    fs::create_directories(made / "a/b");
    return made;
  }();
  std::string text(reinterpret_cast<const char*>(data), size);
  std::ranges::replace(text, '/', '_');
  const char kind = text.empty() ? ' ' : text.front();
  text.erase(0, kind == 'j' || kind == '0' ? 1 : 0);
  const std::string path = (folder / (kind == 'j' ? "list.jsonl" : "list")).string();
  std::ofstream(path, std::ios::binary) << text;
  read_lines(path, kind == '0' ? '\0' : '\n', text);
  fovea::InputOptions inputs;
  inputs.inputs = {kind == 'j' ? path : "@" + path};
  inputs.null_separated = kind == '0';
  static const fs::path home = fs::current_path();  // libFuzzer reads and writes its files here
  fs::current_path(folder / "a/b");
  try {
    const auto source = fovea::pipeline::make_source(inputs, {});
    fovea::pipeline::Item item;
    for (int names = 0; names < kMaxNames && source->next(item); ++names) {
      check(item.kind != fovea::pipeline::Item::Kind::kFailed || !item.error.empty());
    }
  } catch (const fovea::Error&) {
    fs::current_path(home);
    return 0;  // rejecting a list is correct
  }
  fs::current_path(home);
  return 0;
}
