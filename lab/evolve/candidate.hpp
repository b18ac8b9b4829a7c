// Candidates: variants of a kernel that are compiled at run time and must pass every gate before
// they are timed against the kernel that the launcher would choose.
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

/// A candidate's gates in the order in which they are checked, cheap ones first.
enum class CandidateGate : std::uint8_t {
  kLegal,      // the parameter values are in the table, and their combination is possible
  kCompile,    // it compiles
  kResources,  // no spills; registers and shared memory suffice
  kRaces,      // the emulator finds no race; skipped, since it runs PTX and not machine code
  kSmall,      // the card's small cases are computed correctly
  kMutants,    // the card's mutants are rejected
  kRight,      // the case itself is computed correctly, twice with identical results
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
  std::string kernel{};                  // the kernel that it is derived from; empty: the
                                         // baseline's
  std::map<std::string, int> changes{};  // tuning parameters that differ from the kernel's
  std::string source{};                  // replaces the kernel's own source file; empty: unchanged
};

struct CandidateResult {
  std::optional<bool> valid = false;  // nullopt: it never ran, so its validity is unknown
  std::optional<CandidateGate> failed_at;
  std::string reason;  // why it is not valid: a message from the compiler, the check or the driver
  std::vector<std::pair<CandidateGate, std::string>> skipped;  // gates that could not be checked,
                                                               // and why
  std::string kernel;
  ParameterValues values;
  ParameterValues change;            // values that differ from the kernel's own
  std::vector<std::string> sources;  // files that differ from the program's own
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

  /// Returns the baseline's time divided by the candidate's; 0: it was not timed.
  [[nodiscard]] double speed_up() const;
  /// Returns FASTER, SLOWER, SAME (within 1%) or AMBIGUOUS for the candidate relative to the
  /// baseline; empty: it was not timed.
  [[nodiscard]] std::string_view verdict() const;
};

/// Takes candidates through their gates on one case; inputs, expected values and the baseline are
/// made once. Without a device, candidates stop after the resource gate, evaluated for an H200; the
/// results say so.
class CandidateTrials {
 public:
  /// Throws fovea::Error if the setting is invalid: an unknown case or level.
  CandidateTrials(gpu::Device* device, const KernelSources& sources,
                  const CandidateSetting& setting);
  ~CandidateTrials();
  CandidateTrials(const CandidateTrials&) = delete;
  CandidateTrials& operator=(const CandidateTrials&) = delete;

  /// A candidate after the gates that need no device.
  struct Prepared;
  /// Runs the gates that need no device. Throws fovea::Error if the kernel or a tuning parameter is
  /// unknown, or if there is no compiler. Thread-safe.
  [[nodiscard]] std::shared_ptr<Prepared> prepare(const CandidateSpec& spec) const;
  /// Runs the remaining gates.
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

/// Returns the device that is assumed if there is none: an H200.
[[nodiscard]] gpu::DeviceInfo assumed_device();

[[nodiscard]] std::string to_json(const CandidateResult& result);
[[nodiscard]] std::string to_json(const std::vector<TuningSpace>& spaces);

}  // namespace fovea::lab
