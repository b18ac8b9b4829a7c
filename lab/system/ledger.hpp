// Ledger: the lines of JSON that a run leaves, each on the disk before the next thing is done.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/descriptor.hpp"

namespace fovea::lab {

class Ledger {
 public:
  /// Opens the file, or makes it. With `resume` it reads what it holds, and drops a last line that
  /// was cut when its writer was killed; without, a file that holds something is an error, or with
  /// `overwrite`, which takes no `resume`, stays until the first line replaces it. Throws
  /// fovea::Error when it cannot be written, another process writes it, or it holds other things
  /// than lines of JSON.
  Ledger(const std::string& path, bool resume, bool overwrite = false);

  /// The lines that it held when it was opened.
  [[nodiscard]] const std::vector<nlohmann::ordered_json>& lines() const { return lines_; }
  /// Returns when the line is on the disk.
  void append(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  bool is_replaced_;  // by the next line
  io::Descriptor file_;
  std::vector<nlohmann::ordered_json> lines_;
};

}  // namespace fovea::lab
