// A file that says what ran in which order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "fovea_emulator/trace.hpp"
#include "io/atomic_file.hpp"

namespace fovea::emulation {

/// A line for each event, and one before a grid's first that names its kernel.
class TraceFile {
 public:
  /// Throws fovea::Error naming the path, as commit() and what is recorded do.
  explicit TraceFile(const std::filesystem::path& path) : file_(path) {}

  /// Writes what ran; to be used while this object lives.
  [[nodiscard]] emu::TraceFunction recorder();
  /// Adds a line of another kind: a finding, say.
  void add(std::string_view line);
  /// The file is there from now on.
  void commit();

 private:
  void flush();

  io::AtomicFile file_;
  std::string pending_;
  std::uint64_t named_ = 0;  // grids
};

}  // namespace fovea::emulation
