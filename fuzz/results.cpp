// Fuzzes files of results: any bytes are left out of the laboratory's page, or shown with figures
// that are finite. A first byte 'l' is that of a ledger, which has a document on each line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "fovea/error.hpp"
#include "lab/report/report.hpp"

namespace {

// Whether a number of the page's drawings is none.
bool has_no_number(std::string_view html) {
  for (const std::string_view begin : {" x=\"", " y=\"", " cx=\"", " cy=\"", " r=\"", "width:"}) {
    for (const std::string_view what : {"nan", "-nan", "inf", "-inf"}) {
      if (html.find(std::string(begin) + std::string(what)) != std::string_view::npos) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path folder = [] {
    std::string name = "/dev/shm/fovea-fuzz-XXXXXX";
    return std::filesystem::path(mkdtemp(name.data()));
  }();
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool is_ledger = text.starts_with('l');
  text.remove_prefix(is_ledger ? 1 : 0);
  const std::filesystem::path path = folder / (is_ledger ? "a.jsonl" : "a.json");
  std::ofstream(path, std::ios::binary) << text;
  try {
    if (has_no_number(fovea::lab::make_report({&path, 1}).html)) {
      std::abort();
    }
  } catch (const fovea::Error&) {
  }
  return 0;
}
