// The record of profile gates: results of `fovea kernel profile --gate --record` on a GPU model, by
// which kernels are chosen.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/device/device.hpp"

namespace fovea::gpu {

/// The result of one kernel on one case of a benchmark card.
struct GateEntry {
  std::string card{};
  std::string case_name{};
  std::string name{};    // an attention level, such as "wmma"; for other operators the kernel
  double seconds = 0.0;  // 0: unknown
  std::string missed{};  // "matrix units 8.8%, at least 40.0% asked"; empty: passed its gates
};

class GateRecord {
 public:
  explicit GateRecord(std::vector<GateEntry> entries = {}) : entries_(std::move(entries)) {}

  /// Returns the gates that a level or kernel missed on some case; empty if it missed none or is
  /// not on record.
  [[nodiscard]] std::string_view missed(std::string_view name) const;
  /// Returns the index of the level or kernel to run, given in order of preference. This is the
  /// first one, unless it missed a gate and another one missed none and was no slower on any common
  /// case, including all cases where the first one missed a gate: a missed gate alone does not mean
  /// that others are faster.
  [[nodiscard]] std::size_t choose(std::span<const std::string_view> names) const;
  /// Returns true the first time, so that the user is notified once per process.
  [[nodiscard]] bool is_news() const { return !notified_.exchange(true); }

 private:
  [[nodiscard]] bool can_replace(std::string_view name, std::string_view missed) const;

  std::vector<GateEntry> entries_;
  mutable std::atomic<bool> notified_ = false;
};

/// Returns the entries of a record in JSON if it is for this GPU model, otherwise none. Throws
/// fovea::Error that begins with `source` if the JSON is not a record of gates.
[[nodiscard]] std::vector<GateEntry> read_gate_record(std::string_view json,
                                                      std::string_view gpu_name,
                                                      std::string_view source);

/// Returns the record for the device's GPU model: from the file that the environment variable
/// FOVEA_GATE_RECORD names (an empty record for "none"), otherwise from kernels/records. Throws
/// fovea::Error if the file cannot be read or is for another GPU model.
[[nodiscard]] const GateRecord& gate_record(const DeviceInfo& device);

}  // namespace fovea::gpu
