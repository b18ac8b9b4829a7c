// OutputPlace: where the bytes of an output go that somebody named by a path.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>

#include <sys/stat.h>

#include "io/descriptor.hpp"

namespace fovea::io {

/// What a path leads to. Links are followed, so that a link stays and the file behind it is
/// replaced.
struct OutputPlace {
  /// Behind all links; of what is not replaced, the path as it was given.
  std::filesystem::path path;
  /// A pipe, a device, the standard output or another open file (/dev/fd/3): it is written to as it
  /// is, never replaced.
  bool is_direct = false;
  /// The open file of this process that it is, or -1. Opened anew, a file would be written from its
  /// beginning, over what the stream has written.
  int stream = -1;
  /// What is there by now.
  std::optional<struct stat> there{};
};

/// Throws fovea::Error when the path leads to a folder, through too many links, or to an open file
/// that this process may not write to.
[[nodiscard]] OutputPlace output_place(const std::filesystem::path& path);

/// Makes waiting for the reader of a pipe end with Interrupted once `stop` is set, which a
/// handler of signals does. Null: such a signal ends the program.
void stop_waiting_for_readers(const std::atomic<bool>* stop);

/// Opens a direct place for writing; waits for the reader of a pipe.
[[nodiscard]] Descriptor open_directly(const OutputPlace& place);

/// Throws fovea::Error when an output could not be written to this path by now: told at once, not
/// after the work.
void check_writable(const std::filesystem::path& path);

}  // namespace fovea::io
