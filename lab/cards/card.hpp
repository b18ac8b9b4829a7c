// A kernel's card: everything that check, bench, profile and the resource gates know of it.
//
// A new kernel is a new folder under kernels/ and a new card in lab/cards/, added to
// lab/cards/registry.cpp; nothing else in the laboratory names it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/archs.hpp"
#include "lab/cards/problem_fields.hpp"
#include "lab/cards/workload.hpp"

namespace fovea::lab {

/// What a case is for.
struct CaseUse {
  bool check = true;     // part of `check`
  bool bench = false;    // part of `bench`
  bool mutants = false;  // check also runs its mutants; at least one case of a card does
  bool small = false;    // quick enough under compute-sanitizer, which slows kernels a hundredfold
};

/// A problem size that matters, and what for.
struct Case : CaseUse {
  std::string name;  // "m232064"
  /// `seed` draws other inputs of the same problem.
  std::function<std::unique_ptr<Workload>(std::uint64_t seed)> make;

  /// The same problem for another use.
  [[nodiscard]] Case used(const CaseUse& use) const {
    Case other = *this;
    static_cast<CaseUse&>(other) = use;
    return other;
  }
};

/// The case of the workload W that these arguments and the seed make.
template <typename W, typename... Arguments>
[[nodiscard]] Case case_of(const std::string& name, const Arguments&... arguments) {
  Case made;
  made.name = name;
  made.make = [arguments...](std::uint64_t seed) {
    return std::make_unique<W>(arguments..., seed);
  };
  return made;
}

using ops::reference::Tolerance;
using ops::reference::tolerance_of;

/// A role of the threads of a kernel whose warps are specialised.
struct Role {
  std::string name;         // "producer"
  std::string instruction;  // that threads of this role alone carry out: "UTMALDG"
};

/// How often an instruction may stand in a region of a kernel.
struct InstructionDemand {
  std::string instruction;  // it, or its forms: "STG.E.128"
  bool exactly = false;     // else at most
  /// How often, of a kernel with these values of its tuning parameters.
  std::function<int(const ParameterValues&)> count;
};
[[nodiscard]] InstructionDemand at_most(const std::string& instruction, int count);
[[nodiscard]] InstructionDemand exactly(const std::string& instruction, int count);
[[nodiscard]] InstructionDemand exactly(const std::string& instruction,
                                        std::function<int(const ParameterValues&)> count);

/// Part of a kernel: a role of its, or what the sources mark by `// region: NAME` and `// end
/// region`, where the instructions are those that were made from the lines between.
struct RegionLimits {
  std::string region;  // "epilogue loop"
  std::vector<InstructionDemand> demands{};
};

/// Limits of the compiled kernels that a card is responsible for. Spills, stack and local memory
/// are never allowed.
struct KernelLimits {
  std::string kernel;   // name of a KernelImage, or its beginning and a '*'
  int arch = 0;         // only images of this architecture; 0: all
  int registers = 255;  // a thread, at launch
  /// A block's static bytes: the dynamic part is the launcher's.
  int shared_bytes = static_cast<int>(gpu::arch_up_to(gpu::kDefaultArch, gpu::kArchs).shared_bytes);
  std::vector<std::string> sass_has{};    // beginnings of instructions that must occur: "QGMMA"
  std::vector<std::string> sass_lacks{};  // beside LDL and STL, which never may
  std::vector<Role> roles{};              // none: all warps do the same
  std::vector<RegionLimits> regions{};

  [[nodiscard]] bool covers(std::string_view name) const {
    return kernel.ends_with('*')
               ? name.starts_with(std::string_view(kernel).substr(0, kernel.size() - 1))
               : name == kernel;
  }
};

/// What a case has to reach under the profiler, at a level of its operator or by the launcher's
/// choice: what lab/profile/gates.hpp's model needs of the kernel's design. Shares are from 0 to 1.
struct ProfileGate {
  std::string level{};            // "wmma"; empty: the launcher's choice
  std::string case_name{};        // what is profiled
  std::string reason{};           // of the limits that are set here, not by the model
  double reach = 0.75;            // of the roofline; 0: the problem does not fill the GPU
  double matrix_rate = 1.0;       // of the ceiling, that its matrix instructions can reach
  double exponentials = 0;        // that it takes
  double reads = 1;               // times that the operands have to pass
  double least_matrix = 0;        // of its time that the matrix units are busy
  double least_fma = 0;           // the same of the units of multiply-adds
  double most_conflicts = 0.05;   // of rows of banks, that the addresses' layout adds
  double least_occupancy = 0.85;  // of the warps that fit; 0: the problem does not fill the SMs
  double most_barrier = 0.10;     // of waiting warps
  int ctas_per_sm = 1;            // that have to fit
  std::string ctas_reason = "one CTA has all of an SM";
};

/// Warps that a producer's warpgroup leaves resident: three of its four end at once.
inline constexpr double kProducerOccupancy = 0.67;
/// The share of the waiting at barriers where warpgroups take turns.
inline constexpr double kPingPongBarrierShare = 0.5;

/// The share of the matrix rate that mma.sync reaches on an H200: its operands come through
/// registers.
inline constexpr double kMmaSyncRate = 0.62;

/// Rows of cases that are timed: 1,184 images of 196 tokens.
inline constexpr std::int64_t kTimedRows = 232064;

/// The least speed of a card beside a peer.
struct SpeedGate {
  std::string peer;          // its name, or the beginning of it: "cuDNN"
  double least_ratio = 1.0;  // the peer's time over ours
  std::string reason{};
};

struct Card {
  std::string name;       // "patch_embed": what the commands take
  std::string operation;  // in words: "patches x weights^T + position table"
  int first_arch = 90;    // from which on a case that no kernel runs is a fault
  std::vector<Case> cases{};
  Tolerance tolerance{};
  std::vector<std::string> levels{};  // of its operator, the plainest first; empty: it has none
  /// A case of a problem that is not listed: the timed one with these fields changed. It has
  /// mutants when the problem is such that they show.
  std::function<Case(ProblemFields&)> problem{};
  /// Problems that fill pipelines and persistent CTAs more than once, and that the emulator still
  /// takes seconds for. Mutants run on all, and checks on the emulator that name no case
  /// have the first.
  std::vector<std::string> emulated{};
  std::vector<KernelLimits> kernels{};
  std::vector<ProfileGate> gates{};
  std::vector<SpeedGate> speed_gates{};
};

/// All of them, in the order in which they are listed.
[[nodiscard]] const std::vector<Card>& cards();

/// The first architecture whose matrix units multiply numbers in blocks with a scale each.
[[nodiscard]] int first_block_scaled_arch();

/// The architectures that the card's kernels are compiled to machine code for, in order: {90, 100}.
[[nodiscard]] std::vector<int> archs_of(const Card& card);

/// The named cards, or all without names. Throws fovea::Error that lists the names there are.
[[nodiscard]] std::vector<const Card*> find_cards(std::span<const std::string> names);

/// The case of that name; without one the first that is timed; of a problem's fields, such as
/// "m=4099,n=1728", the case that they make. Throws fovea::Error when there is none.
[[nodiscard]] Case find_case(const Card& card, std::string_view name);
/// The card's cases, or the one of that name, in find_case's words; none when it has none.
[[nodiscard]] std::vector<Case> cases_of(const Card& card, std::string_view name);

/// Throws fovea::Error that names the levels there are, unless the card has this one.
void require_level(const Card& card, std::string_view level);

/// A card as JSON, all that somebody needs to know who is to write a better kernel for it:
/// the operation, its problems, tolerances, limits, gates, tuning parameters and source files; with
/// a device also the peers that this machine has. Without `problems` its cases are names alone: to
/// say more of one its inputs are drawn, a second for a card of many cases.
[[nodiscard]] std::string to_json(const Card& card, gpu::Device* device, bool problems);

}  // namespace fovea::lab
