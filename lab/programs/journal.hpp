// Journal of a program in the emulator: its launches, findings and refusals, as the library in its
// process writes them and the command reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fovea_emulator/finding.hpp"

namespace fovea::programs {

/// A launch that has run, in one schedule or several.
struct LaunchRecord {
  std::uint64_t number = 0;  // of the program's launches, from 1
  std::string kernel{};      // its name in C++
  std::uint64_t schedules = 0;
  std::uint64_t operations = 0;
  double seconds = 0;
  bool is_chosen = true;  // by Settings::searches
};

/// The side of the program's process: writes the journal, and tells the user on the standard error.
class Journal {
 public:
  /// Writes to `file`; if it is empty, tells the user alone.
  explicit Journal(std::filesystem::path file) : file_(std::move(file)) {}

  void add(const LaunchRecord& launch);
  /// Tells a finding the first time that its kernel has it at this instruction; counts it always.
  void add_finding(const LaunchRecord& launch, const emu::Finding& finding, std::uint64_t seed);
  /// Tells what the emulator cannot do for the program, once for each text.
  void add_refusal(const std::string& text);
  /// Tells a wrong call of the program, which returns an error to it, once for each text.
  void add_note(const std::string& text);

 private:
  void write(const nlohmann::ordered_json& line);

  std::filesystem::path file_;
  std::set<std::string> told_;
};

/// The side of the command.
struct JournalSummary {
  std::uint64_t launches = 0;
  std::uint64_t chosen_launches = 0;
  std::uint64_t accused_launches = 0;  // with findings
  std::uint64_t schedules = 0;
  std::uint64_t operations = 0;
  double seconds = 0;
  std::set<std::string> kernels{};
  /// Findings as emulation::to_json has them, each with "launch", the number of the first launch
  /// that has it, "seed", and "launches", how many have it.
  std::vector<nlohmann::ordered_json> findings{};
  std::vector<std::string> refusals{};
  std::vector<std::string> notes{};
};

/// Reads a journal. Lines that a killed program has not completed are left out.
[[nodiscard]] JournalSummary read_journal(const std::filesystem::path& file);

}  // namespace fovea::programs
