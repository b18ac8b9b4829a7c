// Captures the outputs of a GPU for the cards' small cases, and checks that the emulator computes
// the same outputs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "gpu/device/device.hpp"
#include "lab/captures/results.hpp"
#include "lab/emulated/check_emulated.hpp"

namespace fovea::lab {

/// Opens a GPU but reports the emulated device's properties, since the launcher's plans and grids
/// depend on the number of SMs and on the L2 cache. Throws as gpu::open_cuda_device does.
[[nodiscard]] std::unique_ptr<gpu::Device> open_as_emulated(int index);

/// Records the outputs of cases by architecture, card, case and plan.
class CaseRecorder {
 public:
  /// Records a hash and `words` words of each output; 0: a default number of words, which is larger
  /// for approximate outputs.
  CaseRecorder(const gpu::DeviceInfo& device, std::size_t words);

  /// Implements EmulatedCheckOptions::inspect; always returns "".
  std::string inspect(const EmulatedJob& job, const CaseOutputs& ran);
  [[nodiscard]] const captures::Results& results() const { return results_; }

 private:
  int arch_;
  std::size_t words_;
  std::mutex mutex_;
  captures::Results results_;
};

/// Results of comparing the emulator's outputs of a card with those of a GPU.
struct CaptureFigures {
  int compared = 0;
  int differing = 0;              // outputs that differ by more than the tolerance
  int changed = 0;                // differing outputs whose kernel has changed since the capture
  int missing = 0;                // not in the file, or recorded with other inputs or kernels
  int approximate = 0;            // compared outputs of approximate instructions
  captures::Distance distance{};  // largest distance of approximate outputs
};

/// Compares outputs with the recorded ones: bit for bit, unless a kernel of the case has
/// approximate instructions. In that case, each recorded word may differ by 2 ulps, or by 2 ulps of
/// the output's root mean square.
class CaseComparer {
 public:
  /// Throws fovea::Error if the file is damaged.
  CaseComparer(const std::filesystem::path& file, int arch);

  /// Implements EmulatedCheckOptions::inspect.
  std::string inspect(const EmulatedJob& job, const CaseOutputs& ran);
  [[nodiscard]] const captures::Results& captured() const { return captured_; }
  /// Returns the counts by card; valid after all jobs have finished.
  [[nodiscard]] const std::map<std::string, CaptureFigures>& figures() const { return figures_; }

 private:
  int arch_;
  captures::Results captured_;
  std::mutex mutex_;
  std::map<std::string, CaptureFigures> figures_;
};

}  // namespace fovea::lab
