// bench: times cards and their peers on a device, and measures the device's ceilings.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/check/judge.hpp"
#include "lab/measure/time_gate.hpp"
#include "lab/measure/timer.hpp"
#include "lab/system/nvml.hpp"

namespace fovea::lab {

struct BenchOptions {
  std::uint64_t seed = 1;
  std::string only_case;  // empty: all timed cases
  bool peers = true;
  bool plans = false;  // time every plan, not only the launcher's choice
};

/// The device's maximal rates, measured in the same run.
struct Ceilings {
  double copy_bytes_per_second = 0.0;  // copy on the device: bytes read plus bytes written
  double bf16_flops = 0.0;             // cuBLASLt, 8192^3; 0 without cuBLASLt
  double e4m3_flops = 0.0;
};

/// Measures the ceilings with the timer that is used for kernels. A ceiling that cannot be measured
/// is 0, and `missing` says why.
[[nodiscard]] Ceilings measure_ceilings(gpu::Device& device, const Nvml& nvml,
                                        std::string& cublaslt_version,
                                        std::vector<std::string>& missing);

struct PeerFigure {
  Timing timing;
  double ratio = 0.0;  // the peer's time divided by ours; above 1 if ours is faster
  double sustained_ratio = 0.0;
  bool ambiguous = false;
  bool same_result = true;
  std::string wrong;  // why its output is wrong; empty if it is correct
};

/// Result of a speed gate.
struct SpeedResult {
  SpeedGate gate;
  double ratio = 0.0;  // 0 if the peer was not measured, which fails the gate
  bool passed = false;
  /// Returns "1.08x of cuDNN, at least 0.90x required".
  [[nodiscard]] std::string words() const;
};

struct BenchFigure {
  std::string card;
  std::string case_name;
  std::string plan;  // empty: the launcher's choice
  std::string description;
  Verdict verdict;  // of the check before timing
  Timing timing;
  double flops = 0.0;  // number of operations per run
  double bytes = 0.0;
  double matrix_ceiling = 0.0;  // operations per second for the operand type
  std::optional<SmokeFigure> smoke;
  std::vector<PeerFigure> peers;
  std::vector<SpeedResult> gates;  // for the launcher's choice if peers were requested
};
/// Judges the card's speed gates, using the peers in a figure.
[[nodiscard]] std::vector<SpeedResult> judge_speed(const Card& card, const BenchFigure& figure);

struct BenchReport {
  gpu::DeviceInfo device;
  std::string driver_version;
  std::string cublaslt_version;
  Ceilings ceilings;
  std::vector<BenchFigure> figures;
  std::vector<std::string> missing;  // unavailable peers and readings, and the reasons
  int failed = 0;                 // number of kernels that were not timed because of a wrong output
  std::vector<TimeChange> times;  // comparison with earlier results; empty if there are none
};

/// `report` is called with each figure as it is measured, `failed` with each kernel whose output is
/// wrong.
[[nodiscard]] BenchReport bench(gpu::Device& device, std::span<const Card* const> cards,
                                const BenchOptions& options,
                                const std::function<void(const Ceilings&)>& measured,
                                const std::function<void(const BenchFigure&)>& report,
                                const std::function<void(const BenchFigure&)>& failed);

/// Returns the report, with a description of the machine, as JSON for bench/report. Keeps the other
/// sections of the file `path` (unless empty). Throws fovea::Error as check_json_file() does.
[[nodiscard]] std::string to_json(const BenchReport& report, const std::string& path);
/// Throws fovea::Error if the file is not empty and not a JSON object.
void check_json_file(const std::string& path);

}  // namespace fovea::lab
