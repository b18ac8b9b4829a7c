// Candidates: variants of a kernel that are compiled at run time and must pass all gates before
// their times are compared with that of the launcher's choice.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"
#include "lab/measure/timer.hpp"
#include "lab/system/compiler.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::lab {

/// A candidate's gates in the order in which they are checked, from the cheapest to the most
/// expensive.
enum class CandidateGate : std::uint8_t {
  kLegal,      // the parameter values are in the table, and their combination is allowed
  kCompile,    // it compiles
  kResources,  // no spills; registers and shared memory suffice
  kRaces,      // the emulator finds nothing in the card's small cases, on several schedules
  kSmall,      // the card's small cases are computed correctly
  kMutants,    // the card's mutants are rejected
  kRight,      // the timed case is computed correctly, and a second run gives the same result
  kTime,
};
/// Returns the gate's name: "compile".
[[nodiscard]] std::string_view to_string(CandidateGate gate);

/// The case that candidates are tried on, and the baseline that they are compared with.
struct CandidateSetting {
  const Card* card = nullptr;
  std::string case_name{};  // empty: the card's timed case
  std::string level{};      // level of the baseline; empty: the launcher's choice
  std::uint64_t seed = 1;
};

/// Description of a candidate.
struct CandidateSpec {
  std::string kernel{};                  // kernel to derive from; empty: the baseline's
  std::map<std::string, int> changes{};  // changed tuning parameters
  std::string source{};  // text that replaces the kernel's source file; empty: unchanged
};

struct CandidateResult {
  std::optional<bool> valid = false;  // nullopt: unknown, since it never ran
  std::optional<CandidateGate> failed_at;
  std::string reason;  // why it is invalid: a message from the compiler, the check or the driver
  std::vector<std::pair<CandidateGate, std::string>> skipped;  // gates that could not be checked,
                                                               // and why
  std::string kernel;
  ParameterValues values;
  ParameterValues change;            // values that differ from the kernel's defaults
  std::vector<std::string> sources;  // files that differ from those embedded in the program
  std::string compiler;
  double compile_seconds = 0.0;
  int registers = 0;
  std::size_t shared_bytes = 0;  // static and dynamic shared memory per CTA
  int spill_bytes = 0;
  int checked = 0;                       // number of outputs that were checked
  std::optional<double> worst;           // largest |actual - expected| in the case
  std::optional<double> worst_relative;  // as in Verdict
  std::string baseline;
  std::optional<Timing> timing;
  std::optional<Timing> baseline_timing;

  /// Returns the baseline's time divided by the candidate's, or 0 if the candidate was not timed.
  [[nodiscard]] double speed_up() const;
  /// Returns FASTER, SLOWER, SAME (within 1%) or AMBIGUOUS for the candidate relative to the
  /// baseline, or "" if it was not timed.
  [[nodiscard]] std::string_view verdict() const;
};

/// Checks candidates for one case at the gates. Inputs, expected values and the baseline are shared
/// by all candidates. The gates up to that of races need no device; those behind it are skipped
/// without one, and those before it then assume an H200.
class CandidateTrials {
 public:
  /// Throws fovea::Error if the setting names an unknown case or level.
  CandidateTrials(gpu::Device* device, const KernelSources& sources,
                  const CandidateSetting& setting);
  ~CandidateTrials();
  CandidateTrials(const CandidateTrials&) = delete;
  CandidateTrials& operator=(const CandidateTrials&) = delete;

  /// A candidate after the gates that do not need a device.
  struct Prepared;
  /// Checks the gates that do not need a device. Throws fovea::Error if the kernel or a tuning
  /// parameter is unknown, or if there is no compiler. Thread-safe.
  [[nodiscard]] std::shared_ptr<Prepared> prepare(const CandidateSpec& spec) const;
  /// Checks the remaining gates.
  [[nodiscard]] CandidateResult finish(const std::shared_ptr<Prepared>& prepared);

  [[nodiscard]] CandidateResult run(const CandidateSpec& spec) { return finish(prepare(spec)); }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws fovea::Error if there is no kernel with this name.
[[nodiscard]] gpu::KernelId kernel_named(std::string_view name);

/// The kernels and tuning parameters that candidates for a case can have.
struct TuningSpace {
  std::string kernel;  // name of the baseline's kernel
  std::string plan;    // name of the baseline's plan
  std::string family;
  ParameterValues values;
  std::vector<ParameterRange> ranges;
};
/// Returns one space for each kernel that can run the case, the launcher's choice first.
[[nodiscard]] std::vector<TuningSpace> tuning_spaces(const gpu::DeviceInfo& device,
                                                     const KernelSources& sources,
                                                     const CandidateSetting& setting);

/// Returns the properties of an H200, which are assumed if there is no device.
[[nodiscard]] gpu::DeviceInfo assumed_device();

[[nodiscard]] std::string to_json(const CandidateResult& result);
[[nodiscard]] std::string to_json(const std::vector<TuningSpace>& spaces);

}  // namespace fovea::lab
