// A kernel's card: everything that check, bench, profile and the resource gates know of it.
//
// A new kernel is a new folder under kernels/ and a new card in lab/cards/, added to
// lab/registry.cpp; nothing else in the laboratory names it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/workload.hpp"

namespace fovea::lab {

/// A problem size that matters, and what for.
struct Case {
  std::string name;  // "m232064"
  /// `seed` draws other inputs of the same problem.
  std::function<std::unique_ptr<Workload>(std::uint64_t seed)> make;
  bool check = true;     // part of `check`
  bool bench = false;    // part of `bench`
  bool mutants = false;  // check also runs its mutants; at least one case of a card does
  bool small = false;    // quick enough under compute-sanitizer, which slows kernels a hundredfold
};

/// The case of the workload W that these arguments and the seed make.
template <typename W, typename... Arguments>
[[nodiscard]] Case case_of(const std::string& name, const Arguments&... arguments) {
  return {.name = name, .make = [arguments...](std::uint64_t seed) {
            return std::make_unique<W>(arguments..., seed);
          }};
}

using ops::reference::Tolerance;
using ops::reference::tolerance_of;

/// Limits of the compiled kernels that a card is responsible for. Spills, stack and local memory
/// are never allowed.
struct KernelLimits {
  std::string kernel;                     // name of a KernelImage, or its beginning and a '*'
  int arch = 0;                           // only images of this architecture; 0: all
  int registers = 255;                    // a thread, at launch
  int shared_bytes = 232448;              // a block, static: the dynamic part is the launcher's
  std::vector<std::string> sass_has{};    // beginnings of instructions that must occur: "QGMMA"
  std::vector<std::string> sass_lacks{};  // beside LDL and STL, which never may

  [[nodiscard]] bool covers(std::string_view name) const {
    return kernel.ends_with('*')
               ? name.starts_with(std::string_view(kernel).substr(0, kernel.size() - 1))
               : name == kernel;
  }
};

/// What a level of an operator has to reach under the profiler, on the GPU at hand, before it runs
/// there by default. Shares are from 0 to 1.
struct ProfileGate {
  std::string level;            // "wmma"
  std::string case_name;        // what is profiled
  std::string reason;           // why these limits
  double least_tensor = 0.0;    // of its time that the matrix units are busy
  double least_fma = 0.0;       // the same of the units of multiply-adds
  double most_conflicts = 1.0;  // of shared-memory accesses, that wait for a bank
  int least_ctas_per_sm = 1;    // that an SM can hold
  int most_registers = 255;
  int most_shared_bytes = 232448;
};

struct Card {
  std::string name;       // "patch_embed": what the commands take
  std::string operation;  // in words: "patches x weights^T + position table"
  int arch = 90;          // compute capability that the kernels are for
  std::vector<Case> cases{};
  Tolerance tolerance{};
  std::vector<std::string> levels{};  // of its operator, the plainest first; empty: it has none
  std::vector<KernelLimits> kernels{};
  std::vector<ProfileGate> gates{};
};

/// All of them, in the order in which they are listed.
[[nodiscard]] const std::vector<Card>& cards();

/// Those named, or all without names. Throws fovea::Error that lists the names there are.
[[nodiscard]] std::vector<const Card*> find_cards(std::span<const std::string> names);

/// The case of that name; without one the first that is timed. Throws fovea::Error when there is
/// none.
[[nodiscard]] const Case& find_case(const Card& card, std::string_view name);

/// Throws fovea::Error that names the levels there are, unless the card has this one.
void require_level(const Card& card, std::string_view level);

}  // namespace fovea::lab
