// Ledger: a run's log in lines of JSON, each flushed to disk before the run continues.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/descriptor.hpp"

namespace fovea::lab {

class Ledger {
 public:
  /// Opens or creates the file. With `resume`, reads the existing lines and drops an incomplete
  /// last line, which remains if the writer was killed. With `overwrite`, which excludes `resume`,
  /// the first new line replaces the content. Throws fovea::Error if the file cannot be written, is
  /// in use by another process, contains anything but lines of JSON or, without either option, is
  /// not empty.
  Ledger(const std::string& path, bool resume, bool overwrite = false);

  /// Returns the lines that the file contained when it was opened.
  [[nodiscard]] const std::vector<nlohmann::ordered_json>& lines() const { return lines_; }
  /// Appends a line and waits until it is on disk.
  void append(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  bool is_replaced_;  // whether the next line replaces the content
  io::Descriptor file_;
  std::vector<nlohmann::ordered_json> lines_;
};

}  // namespace fovea::lab
