// Programs that a test ends: which they are, and whether they have.
#pragma once

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace fovea::lab {

/// The first line of a file, once it is whole: a number that a script writes. Empty after a minute.
inline std::string first_line(const std::string& path) {
  for (int i = 0; i < 6000; ++i) {
    std::ifstream file(path);
    std::string line;
    if (std::getline(file, line) && !file.eof()) {
      return line;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "";
}

/// Whether the process of this number has ended, or does within ten seconds. Whoever takes over an
/// orphan may leave it a zombie.
inline bool process_ends(const std::string& number) {
  for (int i = 0; i < 500 && !number.empty(); ++i) {
    std::ifstream file("/proc/" + number + "/stat");
    std::string text;
    const bool runs = std::getline(file, text) && text.find(") Z ") == std::string::npos;
    if (!runs) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace fovea::lab
