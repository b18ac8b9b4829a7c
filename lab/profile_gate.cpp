// What the profiler saw of a level against the limits of its card.
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lab/profile.hpp"

namespace fovea::lab {

std::vector<GateResult> judge_gate(const ProfileGate& gate, const Profile& profile) {
  std::vector<GateResult> results;
  const auto share = [&](std::string_view what, double measured, double least) {
    if (least > 0) {
      results.push_back({fmt::format("{} busy {:.1f}% of the time, {:.0f}% wanted", what,
                                     100 * measured, 100 * least),
                         measured >= least});
    }
  };
  share("matrix units", profile.tensor, gate.least_tensor);
  share("multiply-adds", profile.fma, gate.least_fma);
  if (gate.most_conflicts < 1) {
    // Without a single access the counters were not read.
    const double conflicts = profile.bank_conflicts / profile.shared_accesses;
    results.push_back({fmt::format("{:.1f}% of shared-memory accesses wait for a bank, below "
                                   "{:.0f}% wanted",
                                   100 * conflicts, 100 * gate.most_conflicts),
                       conflicts < gate.most_conflicts});
  }
  results.push_back(
      {fmt::format("an SM holds {} CTAs, {} wanted", profile.ctas_per_sm, gate.least_ctas_per_sm),
       profile.ctas_per_sm >= gate.least_ctas_per_sm});
  results.push_back(
      {fmt::format("{} registers a thread, {} allowed", profile.registers, gate.most_registers),
       profile.registers > 0 && profile.registers <= gate.most_registers});
  results.push_back({fmt::format("{:.0f} bytes of shared memory a block, {} allowed",
                                 profile.shared_bytes, gate.most_shared_bytes),
                     profile.shared_bytes <= gate.most_shared_bytes});
  return results;
}

}  // namespace fovea::lab
