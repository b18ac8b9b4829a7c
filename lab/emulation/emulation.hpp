// Kernels of a PTX file, launched in the emulator as a launch file describes: one schedule, or many
// in parallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "fovea_emulator/device.hpp"
#include "lab/emulation/launch_file.hpp"

namespace fovea::emulation {

/// A buffer whose final content differs from the expected content.
struct Mismatch {
  std::string buffer{};
  std::size_t wrong = 0;  // number of wrong elements
  std::size_t elements = 0;
  std::string index{};  // index of the first wrong element: "[0, 3]"
  std::string actual{};
  std::string expected{};
  double largest_error = 0;  // largest difference; NaN if an actual or expected number is NaN

  [[nodiscard]] std::string text() const;
};

/// Result of one schedule.
struct Outcome {
  std::uint64_t seed = 0;
  emu::Report report{};
  std::vector<Mismatch> mismatches{};             // only checked if the run has ended
  std::vector<std::vector<std::byte>> written{};  // content of each buffer to be written

  [[nodiscard]] bool is_clean() const { return report.is_clean() && mismatches.empty(); }
};

struct ScheduleOptions {
  std::uint64_t first_seed = 0;
  std::uint64_t count = 1;
  bool all = false;  // continue after a schedule with findings
  int threads = 1;
  emu::RunOptions run{};  // the seed is set per schedule; traces only one schedule
};

struct ScheduleReport {
  std::uint64_t run =
      0;  // number of schedules that were run; unless `all`, none starts after a failure
  std::uint64_t clean = 0;  // number of them that are clean
  std::uint64_t steps = 0;  // number of operations that warps executed in these schedules
  std::vector<std::uint64_t> ignored_by{};  // findings left out by each of RunOptions::ignored
  std::vector<Outcome> failed{};  // schedules that are not clean, by seed; at most one unless `all`
  Outcome shown{};  // the schedule whose buffers are written: the first in `failed`, or else the
                    // first of all
};

/// The kernels of a PTX file.
class Module {
 public:
  /// Kernels are decoded when they are needed. Throws fovea::Error if the file is not PTX, with the
  /// line, or if it takes more memory than allowed.
  /// Messages call the file `name`, if one is given.
  explicit Module(const std::filesystem::path& path, std::size_t max_memory = kMaxMemory,
                  const std::string& name = "");

  [[nodiscard]] const std::vector<emu::KernelHandle>& kernels() const { return kernels_; }
  /// Finds a kernel by its name in the PTX or in C++ ("ns::saxpy"); template arguments may be
  /// omitted if the name remains unique. An empty name denotes the only kernel. Throws
  /// fovea::Error, which lists the kernels, if there is no such kernel.
  [[nodiscard]] const emu::KernelHandle& find(const std::string& name) const;
  /// Returns the shortest name by which find() finds this kernel alone.
  [[nodiscard]] std::string unique_name(const emu::KernelHandle& kernel) const;
  /// Throws fovea::Error, with the line, if the emulator does not support the kernel.
  void decode(const emu::KernelHandle& kernel) const;
  [[nodiscard]] emu::Device& device() { return device_; }
  [[nodiscard]] const emu::Device& device() const { return device_; }

 private:
  /// Lists the unique names of kernels, of the first of many.
  [[nodiscard]] std::string list(std::span<const emu::KernelHandle* const> kernels) const;

  std::string name_;
  emu::Device device_;
  std::vector<emu::KernelHandle> kernels_;
};

using emu::source_name;

/// Returns it without the types of result and parameters: "ns::saxpy<4>".
[[nodiscard]] std::string plain_name(const std::string& name);
/// Whether the kernel, which has the name `kernel` in the PTX, is called so: its name in C++ with
/// or without types and template arguments.
[[nodiscard]] bool is_called(const std::string& kernel, const std::string& name);
/// Returns "a, b, ...": as many names as a message has room for, each as a whole.
[[nodiscard]] std::string list_names(const std::vector<std::string>& names);

/// Returns JSON with: kind, message, place, kernel, instruction, line, source, block, warp, lanes,
/// count; for a race also the `other` access.
[[nodiscard]] nlohmann::ordered_json to_json(const emu::Finding& finding);
/// Reads a finding that to_json has made. Throws fovea::Error, with the field, for any other.
[[nodiscard]] emu::Finding read_finding(const Field& field);
/// Returns JSON with: kind "mismatch", message, buffer, index, is, wanted, wrong, elements.
[[nodiscard]] nlohmann::ordered_json to_json(const Mismatch& mismatch);
/// Returns JSON with: seed, policy, and the findings.
[[nodiscard]] nlohmann::ordered_json to_json(const Outcome& outcome);

class Emulation {
 public:
  /// `kernel` is the name of the kernel for launches that do not name one. Messages call the file
  /// `name`, if one is given. Throws fovea::Error, which names the field of the launch file, if a
  /// launch does not match its kernel.
  Emulation(const std::filesystem::path& ptx, LaunchFile file, const std::string& kernel,
            const std::string& name = "");

  /// Runs each schedule on its own memory, initialised from the launch file, so that the result for
  /// a seed does not depend on other schedules. Throws fovea::Error if a launch is invalid.
  [[nodiscard]] ScheduleReport run(const ScheduleOptions& options) const;
  /// Writes the buffers to their files. Throws fovea::Error that names a file that cannot be
  /// written.
  void write(const Outcome& outcome) const;

 private:
  [[nodiscard]] Outcome run_one(const emu::RunOptions& options) const;
  /// Returns the number of runs that fit into memory in parallel, at most one per thread. Throws
  /// fovea::Error if not even one fits.
  [[nodiscard]] int max_parallel_runs(const ScheduleOptions& options) const;
  /// Describes an address as "element [0, 3] of the buffer x"; returns "" if it is not near a
  /// buffer.
  [[nodiscard]] std::string place_text(std::uint64_t address) const;
  void decode(const emu::KernelHandle& kernel);
  /// Takes memory from the budget; `what` names its use in the error message.
  void take_memory(const std::string& what, std::size_t bytes);
  [[nodiscard]] std::uint64_t address_of(const BufferAddress& address) const {
    return addresses_[address.buffer] + address.offset;
  }

  Module module_;
  LaunchFile file_;
  std::vector<std::uint64_t> addresses_;  // addresses of the buffers
  std::vector<emu::Launch> launches_;
};

}  // namespace fovea::emulation
