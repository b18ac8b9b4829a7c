// Settings that `fovea emulate -- PROGRAM` passes to the library in the program's process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea_emulator/device.hpp"
#include "lab/emulation/limits.hpp"

namespace fovea::programs {

struct Settings {
  /// Launches that run in `schedules` schedules, with the seeds from that of `run` on: those of the
  /// kernel of this name, unless it is empty, and of these numbers (from 1), unless there are none.
  /// All others run in one.
  std::uint64_t schedules = 1;
  std::string kernel{};
  std::vector<std::int64_t> launches{};
  int arch = 90;  // architecture of the emulated GPU
  std::size_t max_memory = emulation::kMaxMemory;
  int threads = 1;
  bool all = false;       // goes on behind schedules with findings
  bool is_gnu = false;    // tells findings as compilers do
  std::string program{};  // its name, for findings whose source is not known
  emu::RunOptions run{};
  /// File to which the library appends what it does, a JSON object a line.
  std::filesystem::path journal{};

  /// Whether the launch runs in `schedules` schedules. `kernel_name` is its name in the PTX.
  [[nodiscard]] bool searches(std::uint64_t launch, const std::string& kernel_name) const;
};

/// Environment variable that holds the settings.
inline constexpr const char* kSettingsVariable = "FOVEA_EMULATED_PROGRAM";

[[nodiscard]] std::string to_text(const Settings& settings);
/// Reads the settings from the environment; those of a program that was started otherwise are the
/// defaults. Throws fovea::Error for a malformed variable.
[[nodiscard]] Settings settings_from_environment();

}  // namespace fovea::programs
