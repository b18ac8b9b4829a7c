// PTX files: their text, or what a file is that is something else.
#include "lab/emulation/ptx_file.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/text.hpp"

namespace fovea::emulation {
namespace {

using namespace std::string_view_literals;

struct OtherFile {
  std::string_view beginning;
  std::string_view words;
};

// Beginnings of files that are often given in the place of PTX.
constexpr std::array kOtherFiles = {
    OtherFile{"\x7f"
              "ELF"sv,
              "is machine code (a cubin, or a program), and the emulator runs PTX: nvcc -ptx makes "
              "it, and "
              "cuobjdump --extract-ptx all takes it out of a program"sv},
    OtherFile{"\x50\xed\x55\xba"sv,
              "is a fatbin, and the emulator runs PTX: cuobjdump --extract-ptx all takes it out, "
              "and nvcc "
              "-ptx makes it"sv},
    OtherFile{
        "\xef\xbb\xbf"sv,
        "begins with a byte order mark, which PTX must not have: save it as text without one"sv},
    OtherFile{"\xff\xfe"sv, "is UTF-16, and PTX is ASCII: save it as such"sv},
    OtherFile{"\xfe\xff"sv, "is UTF-16, and PTX is ASCII: save it as such"sv},
    OtherFile{"BC\xc0\xde"sv, "is LLVM's bitcode, and the emulator runs PTX"sv},
    OtherFile{"\x1f\x8b"sv, "is compressed: unpack it first"sv},
    OtherFile{"PK\x03\x04"sv, "is an archive: unpack it first"sv},
    OtherFile{"!<arch>"sv,
              "is a library of object files, and the emulator runs PTX: cuobjdump "
              "--extract-ptx all takes it out"sv},
};

}  // namespace

std::string why_no_ptx(std::string_view content) {
  if (content.find_first_not_of(" \t\r\n\0"sv) == std::string_view::npos) {
    return "is empty; expected PTX, as nvcc -ptx makes it";
  }
  const auto* const kind = std::ranges::find_if(
      kOtherFiles, [&](const OtherFile& row) { return content.starts_with(row.beginning); });
  if (kind != kOtherFiles.end()) {
    return std::string(kind->words);
  }
  if (content.find(".version") == std::string_view::npos &&
      (content.find("__global__") != std::string_view::npos ||
       content.find("#include") != std::string_view::npos)) {
    return "is no PTX; a CUDA source has a name that ends in .cu";
  }
  return "";
}

std::string read_ptx(const std::filesystem::path& path, std::size_t max_bytes) {
  std::string text = io::read_small_file(path, max_bytes);
  if (const std::string why = why_no_ptx(text); !why.empty()) {
    fail("{}: {}", io::escape(path.native()), why);
  }
  return text;
}

}  // namespace fovea::emulation
