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
#include "lab/programs/settings.hpp"

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
  /// Writes to the file that the settings name; if they name none, tells the user alone.
  explicit Journal(const Settings& settings)
      : file_(settings.journal), is_gnu_(settings.is_gnu), program_(settings.program) {}

  void add(const LaunchRecord& launch);
  /// Tells a finding the first time that its kernel has it at this instruction; counts it always.
  void add_finding(const LaunchRecord& launch, const emu::Finding& finding, std::uint64_t seed);
  /// Counts findings that are left out, by each of RunOptions::ignored.
  void add_ignored(const std::vector<std::uint64_t>& counts);
  /// Tells what the emulator cannot do for the program, once for each text.
  void add_refusal(const std::string& text);
  /// Tells a wrong call of the program, which returns an error to it, once for each text.
  void add_note(const std::string& text);

 private:
  void write(const nlohmann::ordered_json& line);

  void tell_finding(const LaunchRecord& launch, const emu::Finding& finding, std::uint64_t seed);

  std::filesystem::path file_;
  bool is_gnu_;
  std::string program_;
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
  struct Accusation {
    emu::Finding finding{};
    std::uint64_t launch = 0;    // number of the first launch that has it
    std::uint64_t seed = 0;      // of the schedule
    std::uint64_t launches = 0;  // how many launches have it
  };
  std::vector<Accusation> findings{};
  std::vector<std::uint64_t> ignored_by{};  // findings left out by each of RunOptions::ignored
  std::vector<std::string> refusals{};
  std::vector<std::string> notes{};
};

/// Returns a finding as emulation::to_json has it, with "launch", "seed" and "launches".
[[nodiscard]] nlohmann::ordered_json to_json(const JournalSummary::Accusation& accusation);

/// Reads a journal. Lines that a killed program has not completed are left out. Throws
/// fovea::Error, with the line and the field, for what no journal has: the program may have written
/// it.
[[nodiscard]] JournalSummary read_journal(const std::filesystem::path& file);

}  // namespace fovea::programs
