// Candidates: variants of a kernel that are compiled at run time, and pass every gate before they
// are timed beside what the launcher would choose.
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

/// A gate of candidates, in the order in which they are passed: the cheap ones first.
enum class CandidateGate : std::uint8_t {
  kLegal,      // the values are in the table, and their combination can be made
  kCompile,    // a compiler takes it
  kResources,  // nothing spills, registers and shared memory suffice
  kRaces,      // the emulator finds no race; skipped, since it runs PTX and no machine code
  kSmall,      // the card's small cases are right
  kMutants,    // and its mutants are rejected
  kRight,      // the case itself is right, twice the same
  kTime,
};
/// "compile".
[[nodiscard]] std::string_view to_string(CandidateGate gate);

/// What candidates are tried on, and what they are compared with.
struct CandidateSetting {
  const Card* card = nullptr;
  std::string case_name{};  // empty: the card's timed case
  std::string level{};      // of the baseline; empty: the launcher's choice
  std::uint64_t seed = 1;
};

/// What a candidate is.
struct CandidateSpec {
  std::string kernel{};                  // that it is made from; empty: the baseline's
  std::map<std::string, int> changes{};  // of the kernel's tuning parameters
  std::string source{};                  // in the place of the kernel's own file; empty: as it is
};

struct CandidateResult {
  std::optional<bool> valid = false;  // nothing: it never ran, so nobody knows
  std::optional<CandidateGate> failed_at;
  std::string reason;  // why it is not valid; in the compiler's words, the judge's, the driver's
  std::vector<std::pair<CandidateGate, std::string>> skipped;  // that could not be asked, and why
  std::string kernel;
  ParameterValues values;
  ParameterValues change;            // those of the values that differ from the kernel's own
  std::vector<std::string> sources;  // files that differ from the program's own
  std::string compiler;
  double compile_seconds = 0.0;
  int registers = 0;
  std::size_t shared_bytes = 0;  // of a CTA, static and dynamic
  int spill_bytes = 0;
  int checked = 0;                       // outputs that were judged
  std::optional<double> worst;           // of the case: the largest |actual - expected|
  std::optional<double> worst_relative;  // as Verdict has it
  std::string baseline;
  std::optional<Timing> timing;
  std::optional<Timing> baseline_timing;

  /// The baseline's seconds over the candidate's; 0: it was not timed.
  [[nodiscard]] double speed_up() const;
  /// FASTER, SLOWER, SAME (within 1%) or AMBIGUOUS, of the candidate beside the baseline; empty: it
  /// was not timed.
  [[nodiscard]] std::string_view verdict() const;
};

/// Takes candidates through their gates on one case, of which inputs, expected values and the
/// baseline are made once. Without a device they stop after the resources, as for an H200, which
/// the results say.
class CandidateTrials {
 public:
  /// Throws fovea::Error when the question itself is wrong: no such case or level.
  CandidateTrials(gpu::Device* device, const KernelSources& sources,
                  const CandidateSetting& setting);
  ~CandidateTrials();
  CandidateTrials(const CandidateTrials&) = delete;
  CandidateTrials& operator=(const CandidateTrials&) = delete;

  /// A candidate that has passed, or not, the gates that need no device.
  struct Prepared;
  /// Throws fovea::Error when there is no such kernel or tuning parameter, or no compiler.
  /// Thread-safe.
  [[nodiscard]] std::shared_ptr<Prepared> prepare(const CandidateSpec& spec) const;
  /// The other gates.
  [[nodiscard]] CandidateResult finish(const std::shared_ptr<Prepared>& prepared);

  [[nodiscard]] CandidateResult run(const CandidateSpec& spec) { return finish(prepare(spec)); }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws fovea::Error when there is no kernel of this name.
[[nodiscard]] gpu::KernelId kernel_named(std::string_view name);

/// What candidates of a case may be made of.
struct TuningSpace {
  std::string kernel;  // the baseline's
  std::string plan;    // the baseline, in words
  std::string family;
  ParameterValues values;
  std::vector<ParameterRange> ranges;
};
/// One for each kernel that could run the case, the launcher's choice first.
[[nodiscard]] std::vector<TuningSpace> tuning_spaces(const gpu::DeviceInfo& device,
                                                     const KernelSources& sources,
                                                     const CandidateSetting& setting);

/// The device that is meant where there is none: an H200.
[[nodiscard]] gpu::DeviceInfo assumed_device();

[[nodiscard]] std::string to_json(const CandidateResult& result);
[[nodiscard]] std::string to_json(const std::vector<TuningSpace>& spaces);

}  // namespace fovea::lab
