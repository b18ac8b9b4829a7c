// The last error of each thread, and the note handler of the process.
#include "c/status.hpp"

#include <atomic>
#include <string>

#include "core/error.hpp"
#include "core/wording.hpp"

namespace fovea::c {
namespace {

/// Sets the wording of messages to that of C++ when the library is loaded. The program is built
/// without this file.
const bool has_set_cpp_wording = (set_wording(Wording::kCpp), true);
std::atomic<bool> is_wording_chosen = false;

thread_local std::string last_error;
std::atomic<fovea_note_handler> note_handler = nullptr;

}  // namespace

void use_c_wording() noexcept {
  if (has_set_cpp_wording && !is_wording_chosen.exchange(true)) {
    set_wording(Wording::kC);
  }
}

void set_last_error() noexcept {
  try {
    last_error = current_exception_message();
  } catch (...) {
    last_error = "out of memory";  // short enough for the small-string optimisation
  }
}

void send_note(const std::string& note) {
  if (const fovea_note_handler handler = note_handler.load(); handler != nullptr) {
    handler(note.c_str());
  }
}

}  // namespace fovea::c

fovea_note_handler fovea_set_note_handler(fovea_note_handler handler) {
  return fovea::c::note_handler.exchange(handler);
}

void fovea_set_wording(fovea_wording wording) {
  fovea::c::is_wording_chosen = true;
  fovea::set_wording(wording == FOVEA_WORDING_PYTHON ? fovea::Wording::kPython
                     : wording == FOVEA_WORDING_CPP  ? fovea::Wording::kCpp
                     : wording == FOVEA_WORDING_C    ? fovea::Wording::kC
                                                     : fovea::Wording::kProgram);
}

const char* fovea_last_error(void) {
  return fovea::c::last_error.c_str();
}

const char* fovea_version(void) {
  return FOVEA_VERSION;
}
