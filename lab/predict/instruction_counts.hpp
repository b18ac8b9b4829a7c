// Counts the operations of a kernel's warps while the emulator runs the kernel's PTX.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea_emulator/trace.hpp"
#include "lab/cards/card.hpp"
#include "lab/predict/kernel_work.hpp"

namespace fovea::lab {

/// Numbers of operations in a grid, or in a unit of its work. Instructions are counted per warp,
/// not per thread.
struct OperationCounts {
  double instructions = 0;     // PTX instructions of all warps
  double of_workers = 0;       // instructions of warps that compute products or epilogues; of all
                               // warps if there are no products
  double special = 0;          // exponentials, reciprocals, roots and hyperbolic tangents
  double global_passes = 0;    // accesses to 128-byte lines of global memory by ld and st
  double shared_passes = 0;    // shared-memory wavefronts of ld, st, ldmatrix, stmatrix and shfl
  double operand_passes = 0;   // shared-memory wavefronts of wgmma
  double narrow_products = 0;  // multiply-adds of wgmma with one-byte operands
  double wide_products = 0;    // multiply-adds of wgmma with two-byte operands
  double warp_products = 0;    // multiply-adds of mma.sync
  double pair_steps = 0;       // tcgen05.mma instructions by pairs of CTAs
  double tensor_passes = 0;    // reads of 128 bytes of tensor memory by tcgen05.ld

  [[nodiscard]] bool operator==(const OperationCounts&) const = default;
};

/// Names and members of OperationCounts, in declaration order.
using CountMember = std::pair<std::string_view, double OperationCounts::*>;
inline constexpr std::array<CountMember, 11> kCountMembers = {
    {{"instructions", &OperationCounts::instructions},
     {"of_workers", &OperationCounts::of_workers},
     {"special", &OperationCounts::special},
     {"global_passes", &OperationCounts::global_passes},
     {"shared_passes", &OperationCounts::shared_passes},
     {"operand_passes", &OperationCounts::operand_passes},
     {"narrow_products", &OperationCounts::narrow_products},
     {"wide_products", &OperationCounts::wide_products},
     {"warp_products", &OperationCounts::warp_products},
     {"pair_steps", &OperationCounts::pair_steps},
     {"tensor_passes", &OperationCounts::tensor_passes}}};

/// Counts the operations in a kernel's trace.
class OperationCounter {
 public:
  /// `ptx` is the text of the running kernel, to whose lines events refer. It must outlive the
  /// counter.
  explicit OperationCounter(std::string_view ptx);

  /// Counts an event. Throws fovea::Error for a tcgen05.mma by a single CTA, which the model does
  /// not cover.
  void add(const emu::TraceEvent& event);
  [[nodiscard]] OperationCounts counts() const;

 private:
  struct WarpCounts {
    double instructions = 0;
    bool is_worker = false;
  };
  /// Returns whether A of the wgmma on this line is in registers.
  [[nodiscard]] bool has_a_in_registers(int line);
  void add_product(const emu::TraceEvent& event);

  std::vector<std::string_view> lines_;
  std::map<int, bool> a_in_registers_;
  std::map<std::pair<std::array<std::uint32_t, 3>, int>, WarpCounts> warps_;
  OperationCounts sums_;
};

/// Runs the case with this kernel on the emulator and counts the operations. Throws fovea::Error if
/// the card has no such case, if the kernel cannot run it, or if the emulator has a finding.
[[nodiscard]] OperationCounts count_instructions(const Card& card, const std::string& case_name,
                                                 std::string_view kernel, int arch);

/// Returns the counts per unit of a case's work, from the counts of two smaller problems. Throws
/// fovea::Error as count_instructions() does.
[[nodiscard]] std::array<OperationCounts, 2> count_units(const Card& card, const KernelWork& work,
                                                         std::string_view kernel, int arch);

/// Returns a hash of the kernel's PTX without line information; 0 if this program has no such
/// kernel. Throws fovea::Error if its PTX has no entry with that name.
[[nodiscard]] std::uint64_t ptx_hash(std::string_view kernel, int arch);

/// Stored counts for a card's timed case: the kernel, and the counts per unit of work
/// (lab/predict/kernel_work.hpp).
struct CountedCase {
  std::string card;
  std::string case_name;
  std::string kernel;
  std::uint64_t code = 0;  // value of ptx_hash() at the time of counting
  std::array<OperationCounts, 2> counts{};
};

/// Returns the counted cases for the architecture, in the cards' order, from lab/predict/data/
/// (written by scripts/count-instructions). Empty if there is no file for the architecture.
[[nodiscard]] std::span<const CountedCase> counted_cases(int arch);

}  // namespace fovea::lab
