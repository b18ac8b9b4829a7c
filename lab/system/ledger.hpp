// Ledger: a run's log in lines of JSON, each flushed to disk before the run continues.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/descriptor.hpp"

namespace fovea::lab {

class Ledger {
 public:
  /// Opens or creates the file. With `resume`, reads the existing lines and drops a last line that
  /// is incomplete because its writer was killed. Otherwise a file that is not empty is an error;
  /// with `overwrite`, which excludes `resume`, it is kept until the first line replaces it. Throws
  /// fovea::Error if the file cannot be written, is in use by another process, or contains anything
  /// but lines of JSON.
  Ledger(const std::string& path, bool resume, bool overwrite = false);

  /// Returns the lines that the file contained when it was opened.
  [[nodiscard]] const std::vector<nlohmann::ordered_json>& lines() const { return lines_; }
  /// Appends a line; returns when it is on disk.
  void append(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  bool is_replaced_;  // the next line replaces the file
  io::Descriptor file_;
  std::vector<nlohmann::ordered_json> lines_;
};

}  // namespace fovea::lab
