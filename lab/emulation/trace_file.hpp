// TraceFile: a file with the operations of all warps in the order of their execution.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "fovea_emulator/trace.hpp"
#include "io/atomic_file.hpp"

namespace fovea::emulation {

/// Writes a line per event, and before each grid's first event a line that names its kernel.
class TraceFile {
 public:
  /// Throws fovea::Error, with the path, if the file cannot be written; so do commit() and the
  /// recorder.
  explicit TraceFile(const std::filesystem::path& path) : file_(path) {}

  /// Returns a function that writes events; this object must outlive it.
  [[nodiscard]] emu::TraceFunction recorder();
  /// Adds a line, such as a finding.
  void add(std::string_view line);
  /// Gives the finished file its final name.
  void commit();

 private:
  void flush();

  io::AtomicFile file_;
  std::string pending_;
  std::uint64_t named_ = 0;  // number of grids whose kernel names were written
};

}  // namespace fovea::emulation
