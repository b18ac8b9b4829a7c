// Fuzzes the parsers of names: brace patterns, escapes, manifests, and the lines of lists, indexes
// and error files.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/error.hpp"
#include "io/text.hpp"
#include "pipeline/braces.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/journal.hpp"
#include "pipeline/manifest.hpp"

namespace {

using namespace fovea::pipeline;

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

template <typename Body>
void attempt(const Body& body) {
  try {
    body();
  } catch (const fovea::Error&) {
    return;  // rejecting an input is correct
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(fovea::io::is_utf8(fovea::io::escape(text)));
  check(fovea::io::unescape(fovea::io::escape(text)) == text);
  check(parse_error_source(format_error_line(text, text)) == text);
  attempt([&] {
    const BracePattern pattern(text);
    (void)pattern.name(0);
    (void)pattern.name(pattern.count() - 1);
    check(pattern.has_groups() || pattern.name(0) == text);
  });
  attempt([&] { (void)parse_input_line(text); });
  attempt([&] {
    const IndexLine line = parse_index_line(text);
    const IndexLine again = parse_index_line(format_index_line(line));
    check(again.row == line.row && again.source == line.source && again.width == line.width &&
          again.height == line.height && again.file == line.file);
  });
  attempt([&] {
    const Manifest manifest = parse_manifest(text);
    check(format_manifest(manifest) == text);
  });
  attempt([&] {
    const JournalLine line = parse_journal_line(text);
    check(format_journal_line(line) == std::string(text) + "\n");
  });
  return 0;
}
