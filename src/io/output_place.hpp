// OutputPlace: the destination of an output that is named by a path.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>

#include <sys/stat.h>

#include "io/descriptor.hpp"

namespace fovea::io {

/// The destination of an output path. Links are followed, so that their target is replaced and not
/// the link.
struct OutputPlace {
  /// The path with links resolved; for a direct output, the path as given.
  std::filesystem::path path;
  /// Whether the output is written to directly and never replaced: a pipe, a device, the standard
  /// output or another open file (/dev/fd/3).
  bool is_direct = false;
  /// The open descriptor of this process for the output, or -1. Opening the file again would
  /// overwrite it from its start.
  int stream = -1;
  /// The existing file at this path, if any.
  std::optional<struct stat> existing{};
};

/// Resolves an output path. Throws fovea::Error when it leads to a folder, through too many links,
/// or to an open file that this process may not write to.
[[nodiscard]] OutputPlace output_place(const std::filesystem::path& path);

/// Sets a flag whose setting, by a signal handler, ends waits for the reader of a pipe with
/// Interrupted. Null: no flag is polled.
void set_reader_wait_stop_flag(const std::atomic<bool>* stop);

/// Opens a direct output for writing; waits for the reader of a pipe.
[[nodiscard]] Descriptor open_directly(const OutputPlace& place);

/// Throws fovea::Error when an output cannot be written to this path. Called before the work
/// starts, so that it fails early.
void check_writable(const std::filesystem::path& path);

}  // namespace fovea::io
