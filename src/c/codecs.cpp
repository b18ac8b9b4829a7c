// Binds libfovea.so's calls of image libraries to these libraries. The loader looks a name up in
// the whole process first, so a program that has another libjpeg of its own, or a part of one,
// would get Fovea's calls. Here each goes through a table, which is filled with what
// libfovea_codecs.so needs: that library is opened apart from the process (RTLD_DEEPBIND), so that
// the image libraries' calls of each other and of themselves stay among them, too.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <sys/mman.h>

#include "core/error.hpp"

// Written by forward_codecs.py: the names, one after the other, the last of which is empty; and the
// table, which has pages of its own.
extern "C" {
extern const char fovea_codec_names[];
extern void* fovea_codec_slots[];
extern char fovea_codec_slots_end[];
}

namespace fovea::c {
namespace {

/// The library beside this one.
std::string codecs_path() {
  Dl_info self{};
  if (dladdr(&fovea_codec_slots, &self) == 0) {
    return "libfovea_codecs.so";
  }
  const std::string path = self.dli_fname;
  const std::size_t slash = path.rfind('/');
  return (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "libfovea_codecs.so";
}

void* open_codecs() {
  return dlopen(codecs_path().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

bool is_writable = false;

/// Takes the place of functions that cannot be called.
[[noreturn]] void no_codec() {
  const bool is_there = open_codecs() != nullptr;
  const char* const error = is_there ? nullptr : dlerror();
  const char* const otherwise =
      is_writable ? "their table cannot be made read-only" : "one of their functions is missing";
  fail(
      "the libraries of image formats cannot be used: {}; libfovea_codecs.so of the same Fovea has "
      "to lie beside libfovea.so",
      error == nullptr ? otherwise : error);
}

/// Stands in for functions that end what others would have begun: destructors call them.
int nothing() {
  return 0;
}

void* stand_in(std::string_view name) {
  constexpr std::string_view kEnds[] = {"destroy", "Destroy", "free",   "Free",
                                        "Close",   "Delete",  "Release"};
  const bool ends = name.ends_with("End") || std::ranges::any_of(kEnds, [name](auto word) {
                      return name.find(word) != name.npos;
                    });
  return ends ? reinterpret_cast<void*>(&nothing) : reinterpret_cast<void*>(&no_codec);
}

void fill_slots(void* library) {
  std::size_t slot = 0;
  for (const char* name = fovea_codec_names; *name != '\0';
       name += std::char_traits<char>::length(name) + 1) {
    void* const found = library == nullptr ? nullptr : dlsym(library, name);
    fovea_codec_slots[slot++] = found == nullptr ? stand_in(name) : found;
  }
}

[[gnu::constructor]] void bind_codecs() {
  fill_slots(open_codecs());
  char* const begin = reinterpret_cast<char*>(fovea_codec_slots);
  const auto size = static_cast<std::size_t>(fovea_codec_slots_end - begin);
  if (mprotect(begin, size, PROT_READ) != 0) {
    is_writable = true;
    fill_slots(nullptr);
  }
}

}  // namespace
}  // namespace fovea::c
