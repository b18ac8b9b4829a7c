// A kernel's card: all data about the kernel that check, bench, profile and the resource gates use.
// To add a kernel, add a folder under kernels/ and a card in lab/cards/, and list the card in
// lab/cards/registry.cpp; no other file of the laboratory needs to change.
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

/// Commands that use a case.
struct CaseUse {
  bool check = true;     // `check` runs it
  bool bench = false;    // `bench` times it
  bool mutants = false;  // `check` also runs its mutants; set for at least one case of a card
  bool small = false;  // fast enough for compute-sanitizer, which slows kernels down a hundredfold
};

/// A problem size that is checked or timed.
struct Case : CaseUse {
  std::string name;  // "m232064"
  /// Makes the workload; `seed` draws its inputs.
  std::function<std::unique_ptr<Workload>(std::uint64_t seed)> make;

  /// Returns the same problem for use by other commands.
  [[nodiscard]] Case used(const CaseUse& use) const {
    Case other = *this;
    static_cast<CaseUse&>(other) = use;
    return other;
  }
};

/// Returns the case for workload class W, constructed from these arguments and the seed.
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

/// A role in a warp-specialised kernel.
struct Role {
  std::string name;         // "producer"
  std::string instruction;  // instruction that only this role executes: "UTMALDG"
};

/// A limit on how often an instruction occurs in a region of a kernel.
struct InstructionDemand {
  std::string instruction;  // its name or a prefix of it: "STG.E.128"
  bool exactly = false;     // exactly `count` times, not at most
  /// Returns the limit for a kernel with these values of its tuning parameters.
  std::function<int(const ParameterValues&)> count;
};
[[nodiscard]] InstructionDemand at_most(const std::string& instruction, int count);
[[nodiscard]] InstructionDemand exactly(const std::string& instruction, int count);
[[nodiscard]] InstructionDemand exactly(const std::string& instruction,
                                        std::function<int(const ParameterValues&)> count);

/// Instruction limits for a part of a kernel: a role, or the lines between `// region: NAME` and
/// `// end region` in the sources, with the instructions compiled from them.
struct RegionLimits {
  std::string region;  // "epilogue loop"
  std::vector<InstructionDemand> demands{};
};

/// Limits for the compiled kernels that a card is responsible for. Spills, stack and local memory
/// are never allowed.
struct KernelLimits {
  std::string kernel;   // name of a KernelImage, or a prefix of it followed by '*'
  int arch = 0;         // architecture of the images that it applies to; 0: all
  int registers = 255;  // per thread, at launch
  /// Static shared memory per block; the launcher is responsible for the dynamic part.
  int shared_bytes = static_cast<int>(gpu::arch_up_to(gpu::kDefaultArch, gpu::kArchs).shared_bytes);
  std::vector<std::string> sass_has{};    // prefixes of instructions that must occur: "QGMMA"
  std::vector<std::string> sass_lacks{};  // instructions that must not occur, in addition to LDL
                                          // and STL
  std::vector<Role> roles{};              // empty: all warps do the same
  std::vector<RegionLimits> regions{};

  [[nodiscard]] bool covers(std::string_view name) const {
    return kernel.ends_with('*')
               ? name.starts_with(std::string_view(kernel).substr(0, kernel.size() - 1))
               : name == kernel;
  }
};

/// Limits that a case has to keep under the profiler, at a level of its operator or with the kernel
/// that the launcher chooses. The parameters describe the kernel's design for the model in
/// lab/profile/gates.hpp. Shares are between 0 and 1.
struct ProfileGate {
  std::string level{};      // "wmma"; empty: the launcher's choice
  std::string case_name{};  // the case to profile
  std::string reason{};     // explains the limits that are set here rather than by the model
  double reach = 0.75;  // minimal share of the roofline; 0 for problems that do not fill the GPU
  /// Share of the peak matrix rate that the kernel's instructions can reach.
  double matrix_rate = 1.0;
  double exponentials = 0;      // number of exponentials that the kernel computes
  double reads = 1;             // number of times that the operands are read
  double min_matrix = 0;        // minimal share of time in which the matrix units are busy
  double min_fma = 0;           // minimal share of time in which the FMA units are busy
  double max_conflicts = 0.05;  // maximal share of shared-memory wavefronts that are conflicts
                                // due to the layout
  /// Minimal share of the theoretical occupancy; 0 for problems that do not fill the SMs.
  double min_occupancy = 0.85;
  double max_barrier = 0.10;  // maximal share of warp stalls at barriers
  int ctas_per_sm = 1;        // minimal number of resident CTAs
  std::string ctas_reason = "one CTA uses all of an SM";
};

/// Minimal occupancy of kernels with a producer warpgroup, three of whose four warps exit
/// immediately.
inline constexpr double kProducerOccupancy = 0.67;
/// Maximal share of warp stalls at barriers in kernels whose warpgroups alternate (ping-pong).
inline constexpr double kPingPongBarrierShare = 0.5;

/// Share of the peak matrix rate that mma.sync, whose operands are in registers, reaches on an
/// H200.
inline constexpr double kMmaSyncRate = 0.62;

/// Number of rows in timed cases: 1,184 images with 196 tokens each.
inline constexpr std::int64_t kTimedRows = 232064;

/// The minimal speed of a card relative to a peer.
struct SpeedGate {
  std::string peer;        // the peer's name or a prefix of it: "cuDNN"
  double min_ratio = 1.0;  // the peer's time divided by the kernel's
  std::string reason{};
};

struct Card {
  std::string name;       // the name in commands: "patch_embed"
  std::string operation;  // description: "patches x weights^T + position table"
  int first_arch = 90;    // on this architecture and later ones, a case that no kernel can run is
                          // an error
  std::vector<Case> cases{};
  Tolerance tolerance{};
  std::vector<std::string>
      levels{};  // levels of its operator, simplest first; empty if it has none
  /// Makes a case for a problem that is not listed: the timed problem with these fields changed. It
  /// has mutants when the problem is large enough for them to be detected.
  std::function<Case(ProblemFields&)> problem{};
  /// Problems for the emulator that take only seconds there, but fill pipelines and persistent CTAs
  /// more than once. Mutation runs use all of them; checks on the emulator without --case use the
  /// first one.
  std::vector<std::string> emulated{};
  bool emulates_mutants = false;  // whether checks on the emulator run the cases' mutants, too
  std::vector<KernelLimits> kernels{};
  std::vector<ProfileGate> gates{};
  std::vector<SpeedGate> speed_gates{};
};

/// Returns all cards, in the order in which they are listed.
[[nodiscard]] const std::vector<Card>& cards();

/// Returns the earliest architecture whose matrix units multiply block-scaled operands.
[[nodiscard]] int first_block_scaled_arch();

/// Returns the architectures that the card's kernels are compiled to machine code for, ascending:
/// {90, 100}.
[[nodiscard]] std::vector<int> card_archs(const Card& card);

/// Returns the named cards, or all cards if `names` is empty. Throws fovea::Error that lists the
/// known names.
[[nodiscard]] std::vector<const Card*> find_cards(std::span<const std::string> names);

/// Returns the case with this name; for "" the first timed case; for a problem's fields, such as
/// "m=4099,n=1728", a case made from them. Throws fovea::Error if there is none.
[[nodiscard]] Case find_case(const Card& card, std::string_view name);
/// Returns all of the card's cases if `name` is empty, else the one that find_case() returns, or
/// none if the card has no such case.
[[nodiscard]] std::vector<Case> select_cases(const Card& card, std::string_view name);

/// Throws fovea::Error, which lists the card's levels, unless `level` is one of them.
void require_level(const Card& card, std::string_view level);

/// Returns a card as JSON, with everything that the author of a better kernel needs: the operation,
/// its problems, tolerances, limits, gates, tuning parameters and source files; with a device, also
/// the peers on this machine. Without `problems`, cases are listed by name only: describing them
/// requires drawing their inputs, which takes about a second for a card with many cases.
[[nodiscard]] std::string to_json(const Card& card, gpu::Device* device, bool problems);

}  // namespace fovea::lab
