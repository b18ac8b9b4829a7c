// bench: times cards on a device beside their peers and the device's own ceilings.
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
  std::string only_case;  // empty: those that the cards time
  bool peers = true;
  bool plans = false;  // every plan, not the launcher's choice alone
};

/// What the device does at its best, measured in the same run.
struct Ceilings {
  double copy_bytes_per_second = 0.0;  // device to device, read and written
  double bf16_flops = 0.0;             // cuBLASLt, 8192^3; 0 when there is no cuBLASLt
  double e4m3_flops = 0.0;
};

/// Measures with the same timer as kernels. What cannot be measured stays 0, and `missing` says so.
[[nodiscard]] Ceilings measure_ceilings(gpu::Device& device, const Nvml& nvml,
                                        std::string& cublaslt_version,
                                        std::vector<std::string>& missing);

struct PeerFigure {
  Timing timing;
  double ratio = 0.0;  // its time over ours: above 1, ours is faster
  double sustained_ratio = 0.0;
  bool ambiguous = false;
  bool same_result = true;
  std::string wrong;  // why its output is not what the problem asks for; empty when it is
};

/// What was measured of a speed gate.
struct SpeedResult {
  SpeedGate gate;
  double ratio = 0.0;  // 0: its peer was not measured, and the gate is missed
  bool passed = false;
  /// "1.08x of cuDNN, at least 0.90x asked".
  [[nodiscard]] std::string words() const;
};

struct BenchFigure {
  std::string card;
  std::string case_name;
  std::string plan;  // empty: the launcher's choice
  std::string description;
  Verdict verdict;  // of the output that was checked before
  Timing timing;
  double flops = 0.0;  // of one run
  double bytes = 0.0;
  double matrix_ceiling = 0.0;  // operations a second, for its operands
  std::optional<SmokeFigure> smoke;
  std::vector<PeerFigure> peers;
  std::vector<SpeedResult> gates;  // of the launcher's choice, when peers were asked for
};
/// What the peers of a figure say of its card's speed gates.
[[nodiscard]] std::vector<SpeedResult> judge_speed(const Card& card, const BenchFigure& figure);

struct BenchReport {
  gpu::DeviceInfo device;
  std::string driver_version;
  std::string cublaslt_version;
  Ceilings ceilings;
  std::vector<BenchFigure> figures;
  std::vector<std::string> missing;  // peers and readings that this machine has not, and why
  int failed = 0;                    // kernels whose output was wrong: not timed
  std::vector<TimeChange> times;     // beside earlier results; empty: they were not compared
};

/// `report` is called with each figure as it is there, `failed` with each kernel that was wrong.
[[nodiscard]] BenchReport bench(gpu::Device& device, std::span<const Card* const> cards,
                                const BenchOptions& options,
                                const std::function<void(const Ceilings&)>& measured,
                                const std::function<void(const BenchFigure&)>& report,
                                const std::function<void(const BenchFigure&)>& failed);

/// The report as the JSON that bench/report reads, with the machine it was made on, and with
/// what the file `path` ("": none) already holds of other sections. Throws fovea::Error as
/// check_json_file does.
[[nodiscard]] std::string to_json(const BenchReport& report, const std::string& path);
/// Throws fovea::Error when something is in the file, and no JSON object.
void check_json_file(const std::string& path);

}  // namespace fovea::lab
