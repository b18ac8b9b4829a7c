// Gates: limits that the kernels of a card have to meet under the profiler.
//
// The limits follow from a model of the problem, the GPU and the kernel's design, never from what a
// kernel has reached; docs/laboratory.md describes the model.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"
#include "lab/cards/workload.hpp"
#include "lab/measure/bench_cards.hpp"
#include "lab/profile/profile.hpp"

namespace fovea::lab {

/// A limit for one figure in a profile.
struct Gate {
  std::string figure;     // "matrix_units"
  bool at_least = false;  // false: at most
  double limit = 0.0;
  std::string model;  // derivation of the limit
};

struct GateResult {
  Gate gate;
  double reading = 0.0;
  bool passed = false;
  /// Returns the result as text: "matrix_units 8.8%, at least 40.0% required".
  [[nodiscard]] std::string words() const;
};

/// All gates for one case at one level.
struct GateReport {
  std::string card;
  std::string case_name;
  std::string level;  // empty: the launcher's choice
  std::string kernel;
  double seconds = 0.0;
  std::vector<GateResult> results;

  [[nodiscard]] bool passed() const;
};

/// The resources that a problem needs.
struct Work {
  std::string what;
  double flops = 0.0;
  double bytes = 0.0;     // bytes of all operands
  bool one_byte = false;  // the matrix units have one-byte operands
};
[[nodiscard]] Work work_of(const Workload& workload);

/// The times in seconds that a problem takes on a GPU that reaches its ceilings.
struct Roofline {
  double matrix = 0.0;   // of products, at the rate of the kernel's instructions
  double special = 0.0;  // of other work of the SMs: half of the exponentials
  double memory = 0.0;   // of all operands, each read or written once
  /// Returns the root of the sum of squares, since units that are both nearly busy wait for each
  /// other.
  [[nodiscard]] double seconds() const;
};
[[nodiscard]] Roofline roofline(const ProfileGate& demand, const Work& work,
                                const Ceilings& ceilings, const gpu::DeviceInfo& device);

/// Returns the gates for a case whose CTAs have this many threads.
[[nodiscard]] std::vector<Gate> gates_of(const ProfileGate& demand, const Work& work,
                                         const Ceilings& ceilings, const gpu::DeviceInfo& device,
                                         int threads);

/// Merges several launches: seconds and bytes are added, shares weighted by time, and other figures
/// taken from the longest launch; adds the figures that gates need: occupancy_reached, dram_bytes.
[[nodiscard]] Profile in_one(std::span<const Profile> launches);

/// Evaluates the gates on a profile.
[[nodiscard]] GateReport judge_gates(const Card& card, const ProfileGate& demand,
                                     std::span<const Gate> gates, const Profile& profile);

/// Returns a table for people, one line per gate.
[[nodiscard]] std::string to_text(const GateReport& report);
/// Returns the index of the next kernel to measure, in decreasing order of expected speed after
/// those measured so far, of which the first is the launcher's choice. Returns none once a kernel
/// has reached its gates, or if the last one took longer than the first.
[[nodiscard]] std::optional<std::size_t> next_to_measure(std::span<const std::string_view> kernels,
                                                         std::span<const GateReport> reports);

/// Returns the levels without gates for this case, the fastest first. When a level misses a gate,
/// these are measured without limits, since their times decide whether they run in its place.
[[nodiscard]] std::vector<ProfileGate> levels_without_gates(const Card& card,
                                                            const ProfileGate& missed);

/// Returns the record that the choice of kernels reads (src/gpu/launch/gate_record.hpp).
[[nodiscard]] std::string to_json(const gpu::DeviceInfo& device, const Ceilings& ceilings,
                                  std::span<const GateReport> reports);

}  // namespace fovea::lab
