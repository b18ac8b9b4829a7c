// Kernels of a PTX file, launched in the emulator as a launch file says: one schedule, or many at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "fovea_emulator/device.hpp"
#include "lab/emulation/launch_file.hpp"

namespace fovea::emulation {

/// A buffer that is not in the end as it should be.
struct Mismatch {
  std::string buffer{};
  std::size_t wrong = 0;  // elements
  std::size_t elements = 0;
  std::string index{};  // of the first one: "[0, 3]"
  std::string is{};
  std::string wanted{};
  double largest_error = 0;  // of all; NaN where one is or should be NaN

  [[nodiscard]] std::string text() const;
};

/// What became of one schedule.
struct Outcome {
  std::uint64_t seed = 0;
  emu::Report report{};
  std::vector<Mismatch> mismatches{};             // looked for where the report is clean
  std::vector<std::vector<std::byte>> written{};  // of each buffer that is to be written

  [[nodiscard]] bool is_clean() const { return report.is_clean() && mismatches.empty(); }
};

struct ScheduleOptions {
  std::uint64_t first_seed = 0;
  std::uint64_t count = 1;
  bool all = false;  // go on after one with findings
  int threads = 1;
  emu::RunOptions run{};  // but for the seed; its trace is told of one schedule alone
};

struct ScheduleReport {
  std::uint64_t run = 0;         // schedules: all, or those that began before one was not clean
  std::uint64_t steps = 0;       // operations of warps in them
  std::vector<Outcome> found{};  // those that are not clean, by their seeds; one, unless all
  Outcome shown{};               // whose buffers are to be written: the first found, or of all
};

/// The kernels of a PTX file.
class Module {
 public:
  /// Throws fovea::Error for what the emulator does not know, with the line, and for what takes
  /// more memory than it may.
  explicit Module(const std::filesystem::path& path, std::size_t most_memory = kMaxMemory);

  [[nodiscard]] const std::vector<emu::KernelHandle>& kernels() const { return kernels_; }
  /// Finds a kernel by its name in the PTX, or as it is written in C++ ("ns::saxpy"), without what
  /// stands in <> if that is enough. Empty: the only one. Throws fovea::Error that names others.
  [[nodiscard]] const emu::KernelHandle& find(const std::string& name) const;
  [[nodiscard]] emu::Device& device() { return device_; }
  [[nodiscard]] const emu::Device& device() const { return device_; }

 private:
  std::string name_;
  emu::Device device_;
  std::vector<emu::KernelHandle> kernels_;
};

/// A kernel's name as in C++: "void ns::saxpy<4>(int)".
[[nodiscard]] std::string source_name(const std::string& name);

/// JSON of: kind, message, kernel, instruction, line, source, block, warp, lanes; of a race also
/// the `other` access.
[[nodiscard]] nlohmann::ordered_json to_json(const emu::Finding& finding);
/// JSON of: kind "mismatch", message, buffer, index, is, wanted, wrong, elements.
[[nodiscard]] nlohmann::ordered_json to_json(const Mismatch& mismatch);
/// JSON of: seed, policy, and its findings.
[[nodiscard]] nlohmann::ordered_json to_json(const Outcome& outcome);

class Emulation {
 public:
  /// `kernel`: of launches that name none. Throws fovea::Error with the launch file's field for
  /// what does not fit the kernels.
  Emulation(const std::filesystem::path& ptx, LaunchFile file, const std::string& kernel);

  /// Each schedule runs on memory of its own, which begins as the launch file says: a seed gives
  /// what it gives alone. Throws fovea::Error where a launch is not allowed.
  [[nodiscard]] ScheduleReport run(const ScheduleOptions& options) const;
  /// Throws fovea::Error naming the file that cannot be written.
  void write(const Outcome& outcome) const;

 private:
  [[nodiscard]] Outcome run_one(const emu::RunOptions& options) const;
  /// How many runs at a time the memory is enough for, of as many threads. Throws fovea::Error
  /// where it is not enough for one.
  [[nodiscard]] int runs_at_a_time(const ScheduleOptions& options) const;
  /// "element [0, 3] of the buffer x" of an address; "" of one that is not near a buffer.
  [[nodiscard]] std::string place_text(std::uint64_t address) const;
  /// `what`: for the message.
  void take_memory(const std::string& what, std::size_t bytes);
  void write_argument(const Argument& argument, std::span<std::byte> to) const;
  [[nodiscard]] std::vector<std::byte> parameters_of(const LaunchText& launch,
                                                     const emu::KernelHandle& kernel) const;

  Module module_;
  LaunchFile file_;
  std::vector<std::uint64_t> addresses_;  // of the buffers
  std::vector<emu::Launch> launches_;
};

}  // namespace fovea::emulation
