// Gates: limits that a card's kernels have to meet under the profiler.
//
// The limits are derived from a model of the problem, the GPU and the kernel's design, and never
// from measurements of a kernel. docs/laboratory.md describes the model.
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
  bool at_least = false;  // whether the limit is a minimum, not a maximum
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
  bool one_byte = false;  // whether the matrix units' operands have one byte
};
[[nodiscard]] Work needed_work(const Workload& workload);

/// The times in seconds that a problem takes if the GPU reaches its ceilings.
struct Roofline {
  double matrix = 0.0;   // time of the products, at the rate of the kernel's instructions
  double special = 0.0;  // time of half of the exponentials, which does not overlap with products
  double memory = 0.0;   // time for the traffic of all operands
  /// Returns the root of the sum of the squares, since the SMs and the memory wait for each other
  /// if both are busy.
  [[nodiscard]] double seconds() const;
};
[[nodiscard]] Roofline roofline(const ProfileGate& demand, const Work& work,
                                const Ceilings& ceilings, const gpu::DeviceInfo& device);

/// Returns the gates for a case whose CTAs have this many threads.
[[nodiscard]] std::vector<Gate> derive_gates(const ProfileGate& demand, const Work& work,
                                             const Ceilings& ceilings,
                                             const gpu::DeviceInfo& device, int threads);

/// Merges several launches: adds seconds and bytes, averages shares weighted by time, and takes
/// other figures from the longest launch. Adds two figures for the gates, occupancy_reached and
/// dram_bytes.
[[nodiscard]] Profile merge_launches(std::span<const Profile> launches);

/// Evaluates the gates on a profile.
[[nodiscard]] GateReport judge_gates(const Card& card, const ProfileGate& demand,
                                     std::span<const Gate> gates, const Profile& profile);

/// Returns a table with a line per gate, to be printed.
[[nodiscard]] std::string to_text(const GateReport& report);
/// Returns the index of the next kernel to measure. `kernels` are in decreasing order of expected
/// speed, and `reports` are those of the kernels measured so far, the launcher's choice first.
/// Returns std::nullopt if a kernel has met its gates, or if the last one took longer than the
/// first.
[[nodiscard]] std::optional<std::size_t> next_to_measure(std::span<const std::string_view> kernels,
                                                         std::span<const GateReport> reports);

/// Returns the levels without gates for this case, fastest first. If a level misses a gate, these
/// levels are measured without limits, since their times decide whether they replace it.
[[nodiscard]] std::vector<ProfileGate> levels_without_gates(const Card& card,
                                                            const ProfileGate& missed);

/// Returns the record that the launchers read to choose kernels (src/gpu/launch/gate_record.hpp).
[[nodiscard]] std::string to_json(const gpu::DeviceInfo& device, const Ceilings& ceilings,
                                  std::span<const GateReport> reports);

}  // namespace fovea::lab
