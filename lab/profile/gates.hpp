// Gates: what the kernels of a card have to reach under the profiler.
//
// Limits follow from a model of the problem, the GPU and the kernel's design, never from what a
// kernel has reached: docs/laboratory.md describes it.
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

/// One limit of a figure of a profile.
struct Gate {
  std::string figure;     // "matrix_units"
  bool at_least = false;  // else at most
  double limit = 0.0;
  std::string model;  // where the limit comes from
};

struct GateResult {
  Gate gate;
  double reading = 0.0;
  bool passed = false;
  /// "matrix_units 8.8%, at least 40.0% asked".
  [[nodiscard]] std::string words() const;
};

/// All gates of one case at one level.
struct GateReport {
  std::string card;
  std::string case_name;
  std::string level;  // empty: the launcher's choice
  std::string kernel;
  double seconds = 0.0;
  std::vector<GateResult> results;

  [[nodiscard]] bool passed() const;
};

/// What a problem takes of a GPU.
struct Work {
  std::string what;
  double flops = 0.0;
  double bytes = 0.0;     // of all operands
  bool one_byte = false;  // operands of the matrix units
};
[[nodiscard]] Work work_of(const Workload& workload);

/// The seconds that a problem takes on a GPU that reaches its ceilings.
struct Roofline {
  double matrix = 0.0;   // of products, at the rate of the kernel's instructions
  double special = 0.0;  // of what else keeps the SMs busy: half of the exponentials
  double memory = 0.0;   // of all operands, read or written once
  /// Units that are both nearly full wait for each other: the root of the sum of squares.
  [[nodiscard]] double seconds() const;
};
[[nodiscard]] Roofline roofline(const ProfileGate& demand, const Work& work,
                                const Ceilings& ceilings, const gpu::DeviceInfo& device);

/// The gates of a case, for CTAs of so many threads.
[[nodiscard]] std::vector<Gate> gates_of(const ProfileGate& demand, const Work& work,
                                         const Ceilings& ceilings, const gpu::DeviceInfo& device,
                                         int threads);

/// Several launches as one: seconds and bytes added, shares by time, the rest of the longest; with
/// the figures that gates add: occupancy_reached, dram_bytes.
[[nodiscard]] Profile in_one(std::span<const Profile> launches);

/// What was read of the gates.
[[nodiscard]] GateReport judge_gates(const Card& card, const ProfileGate& demand,
                                     std::span<const Gate> gates, const Profile& profile);

/// A table for people, a line a gate.
[[nodiscard]] std::string to_text(const GateReport& report);
/// The next to measure of the kernels that can run a case, the one that should be the fastest
/// first, after these, of which the launcher's choice is the first: none once one has reached its
/// gates, or the last took longer than the first.
[[nodiscard]] std::optional<std::size_t> next_to_measure(std::span<const std::string_view> kernels,
                                                         std::span<const GateReport> reports);

/// The levels without gates on this case, the fastest first: what is to be measured there, without
/// limits, when its level has missed one, as how long they take there decides whether they run
/// instead.
[[nodiscard]] std::vector<ProfileGate> levels_without_gates(const Card& card,
                                                            const ProfileGate& missed);

/// The record that the choice of kernels reads (src/gpu/launch/gate_record.hpp).
[[nodiscard]] std::string to_json(const gpu::DeviceInfo& device, const Ceilings& ceilings,
                                  std::span<const GateReport> reports);

}  // namespace fovea::lab
