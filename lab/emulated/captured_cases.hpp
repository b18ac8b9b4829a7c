// What a GPU computed of the cards' small cases, and whether the emulator computes the same.
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

/// The GPU, with the plans and grids that the emulated one gets: those depend on the number of SMs
/// and on the L2 cache. Throws as gpu::open_cuda_device does.
[[nodiscard]] std::unique_ptr<gpu::Device> open_as_emulated(int index);

/// Keeps outputs of cases, by their architecture, card, case and plan.
class CaseRecorder {
 public:
  /// Keeps a hash of each output, and so many words; 0: few, more where it is approximate.
  CaseRecorder(const gpu::DeviceInfo& device, std::size_t words);

  /// EmulatedCheckOptions::inspect; finds nothing wrong.
  std::string inspect(const EmulatedJob& job, const Ran& ran);
  [[nodiscard]] const captures::Results& results() const { return results_; }

 private:
  int arch_;
  std::size_t words_;
  std::mutex mutex_;
  captures::Results results_;
};

/// How the emulator's outputs of a card compare with the GPU's.
struct CaptureFigures {
  int compared = 0;
  int differing = 0;              // more than they may
  int changed = 0;                // of those that differ: the kernel is another one since
  int missing = 0;                // not in the file, or with other inputs or kernels
  int approximate = 0;            // of those compared
  captures::Distance distance{};  // of approximate outputs
};

/// Compares outputs with the file's: bit for bit, unless a kernel of the case has approximate
/// instructions. Those are compared number by number, as far as they were kept: they may be 2 ulps
/// of their type apart, or as much as 2 ulps of the outputs' mean square root.
class CaseComparer {
 public:
  /// Throws fovea::Error when the file is damaged.
  CaseComparer(const std::filesystem::path& file, int arch);

  /// EmulatedCheckOptions::inspect.
  std::string inspect(const EmulatedJob& job, const Ran& ran);
  [[nodiscard]] const captures::Results& captured() const { return captured_; }
  /// Figures by card; to be called when all is done.
  [[nodiscard]] const std::map<std::string, CaptureFigures>& figures() const { return figures_; }

 private:
  int arch_;
  captures::Results captured_;
  std::mutex mutex_;
  std::map<std::string, CaptureFigures> figures_;
};

}  // namespace fovea::lab
