// Standard descriptors, messages and JSON.
#include "cli/terminal.hpp"

#include <cerrno>
#include <cstdlib>
#include <iostream>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace fovea::cli {

void reserve_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) {
      continue;
    }
    // The system gives out the lowest free number, which is this one. With O_PATH, the folder can
    // be neither read nor written.
    if (::open("/", O_PATH) != fd) {
      std::_Exit(EXIT_FAILURE);  // no descriptor is left for a message
    }
  }
}

void say(std::string_view text) {
  std::cerr << "fovea: " + io::printable(text) + "\n";
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return io::printable_json(
      json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace fovea::cli
