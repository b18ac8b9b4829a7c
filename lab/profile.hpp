// profile: one launch under Nsight Compute, and in words what bounds it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/card.hpp"

namespace fovea::lab {

/// Where warps were found waiting: a place in the source, and for what.
struct HotSpot {
  std::string instruction;
  std::string where;   // "sm90_cooperative.cuh:120"; empty when the disassembler is missing
  std::string reason;  // the chief one
  double share = 0.0;  // of all samples
};

/// One kernel as the hardware's counters saw it; shares are from 0 to 1.
struct Profile {
  std::string kernel;
  double seconds = 0.0;
  double tensor = 0.0;  // of the matrix units' peak
  double issue = 0.0;   // cycles in which a scheduler issued
  double dram = 0.0;    // of the device memory's peak
  double dram_bytes_per_second = 0.0;
  double l2 = 0.0;         // of its peak throughput
  double shared = 0.0;     // of the shared memory's and L1's
  double occupancy = 0.0;  // warps held, of the most that an SM holds
  double occupancy_limit = 0.0;
  std::string occupancy_reason;  // what sets the limit: "registers"
  int registers = 0;
  int ctas_per_sm = 0;           // that an SM can hold
  double shared_bytes = 0.0;     // of a block
  double fma = 0.0;              // of the time that the units of multiply-adds are busy
  double bank_conflicts = 0.0;   // of shared memory
  double shared_accesses = 0.0;  // rows of banks that were read or written, conflicts included
  std::vector<std::pair<std::string, double>> stalls;  // reasons in words, shares of waiting warps
  std::vector<HotSpot> hot_spots;
  std::string no_places;  // why hot spots have no places and there are no roles; else empty
  /// The same by the role that the waiting warps have in the kernel: the place in its body from
  /// which the instruction was inlined, with the chief reasons.
  std::vector<HotSpot> roles;
};

/// Runs ncu on exactly the launches of one case: a child `program kernel run CARD --case CASE`; of
/// one level, when `level` is not empty.
/// Throws fovea::Error that says what is missing: the GPU, ncu, or the permission to read the
/// counters.
[[nodiscard]] std::vector<Profile> profile(const Card& card, const std::string& case_name,
                                           const std::string& level, int device_index,
                                           const std::string& program);

/// One limit of a gate and what was measured.
struct GateResult {
  std::string what;  // "matrix units busy 8.7% of the time, 40.0% wanted"
  bool passed = false;
};
/// A profile against the limits of its gate; only those that the gate sets.
[[nodiscard]] std::vector<GateResult> judge_gate(const ProfileGate& gate, const Profile& profile);

/// The kernels in ncu's "raw" and "source" pages, as comma-separated values. Throws fovea::Error
/// that names a counter or a column that should be there and is not.
[[nodiscard]] std::vector<Profile> read_profile(std::string_view raw, std::string_view source);

/// Gives the hot spots their places, and gathers them by role, from what nvdisasm -gi printed of
/// the kernel.
void place(Profile& profile, const std::string& disassembly);

/// What bounds the kernel, in a sentence or two.
[[nodiscard]] std::string verdict(const Profile& profile);
/// Figures, stalls and hot spots as lines of text.
[[nodiscard]] std::string to_text(const Profile& profile);
[[nodiscard]] std::string to_json(const std::vector<Profile>& profiles);

}  // namespace fovea::lab
