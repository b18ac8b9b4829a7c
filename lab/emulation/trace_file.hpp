// A trace file: which warp executed what, in which order.
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
  /// Throws fovea::Error that names the path, as commit() and the recorder do.
  explicit TraceFile(const std::filesystem::path& path) : file_(path) {}

  /// Returns a function that writes events; this object must outlive it.
  [[nodiscard]] emu::TraceFunction recorder();
  /// Adds another line, such as a finding.
  void add(std::string_view line);
  /// Makes the file appear under its name.
  void commit();

 private:
  void flush();

  io::AtomicFile file_;
  std::string pending_;
  std::uint64_t named_ = 0;  // number of grids whose kernels were named
};

}  // namespace fovea::emulation
