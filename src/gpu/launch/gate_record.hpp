// The record of profile gates: results of `fovea kernel profile --gate --record` on a model of GPU,
// and the choice of kernels by them.
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
  std::string name{};    // of what is chosen: an attention level, "wmma", else a kernel
  double seconds = 0.0;  // 0: unknown
  std::string missed{};  // "matrix units 8.8%, at least 40.0% asked"; empty: it reached its gates
};

class GateRecord {
 public:
  explicit GateRecord(std::vector<GateEntry> entries = {}) : entries_(std::move(entries)) {}

  /// The gate that it missed, on any case; empty when it missed none, or is not on record.
  [[nodiscard]] std::string_view missed(std::string_view name) const;
  /// Which of these, best first, runs: the first, unless it missed a gate and another of them is on
  /// record as having reached all of its own, on each case where the first missed one and in no
  /// more time there: a gate says what a kernel wastes, not that others are faster.
  [[nodiscard]] std::size_t choose(std::span<const std::string_view> names) const;
  /// Returns true the first time, so that the user is notified once per process.
  [[nodiscard]] bool is_news() const { return !told_.exchange(true); }

 private:
  [[nodiscard]] bool stands_in(std::string_view name, std::string_view missed) const;

  std::vector<GateEntry> entries_;
  mutable std::atomic<bool> told_ = false;
};

/// The entries of a record's JSON when it is of this model of GPU, otherwise none. Throws
/// fovea::Error that begins with `source` when it is no such record.
[[nodiscard]] std::vector<GateEntry> read_gate_record(std::string_view json,
                                                      std::string_view gpu_name,
                                                      std::string_view source);

/// What is on record of this model of GPU: of the file that the environment variable
/// FOVEA_GATE_RECORD names ("none": of nothing), else of kernels/records. Throws fovea::Error when
/// the file cannot be read or is of another model of GPU.
[[nodiscard]] const GateRecord& gate_record(const DeviceInfo& device);

}  // namespace fovea::gpu
