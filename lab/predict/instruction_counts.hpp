// What the warps of a kernel do, counted on the emulator while it runs the kernel's PTX.
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

/// What a grid does, or a part of its work. An instruction is one of a warp.
struct OperationCounts {
  double instructions = 0;     // of the PTX, by all warps
  double of_workers = 0;       // by warps that multiply or finish products; by all if none does
  double special = 0;          // exponentials, reciprocals, roots and hyperbolic tangents
  double global_passes = 0;    // lines of 128 bytes of global memory that ld and st touch
  double shared_passes = 0;    // rows of banks that ld, st, ldmatrix, stmatrix and shfl take
  double operand_passes = 0;   // rows of banks that wgmma reads
  double narrow_products = 0;  // multiply-adds of wgmma, of types of one byte
  double wide_products = 0;    // the same of two bytes
  double warp_products = 0;    // multiply-adds of mma.sync
  double pair_steps = 0;       // tcgen05.mma by two CTAs together
  double tensor_passes = 0;    // of 128 bytes of tensor memory that tcgen05.ld reads

  [[nodiscard]] bool operator==(const OperationCounts&) const = default;
};

/// The names and members of OperationCounts, in their order.
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

/// Counts the trace of a kernel.
class OperationCounter {
 public:
  /// `ptx`, which has to outlive it, of the kernel that runs: the events name its lines.
  explicit OperationCounter(std::string_view ptx);

  /// Throws fovea::Error of a tcgen05.mma by one CTA, which the model has not.
  void add(const emu::TraceEvent& event);
  [[nodiscard]] OperationCounts counts() const;

 private:
  struct OfWarp {
    double instructions = 0;
    bool is_worker = false;
  };
  /// Whether A of the wgmma that begins on this line is in registers.
  [[nodiscard]] bool has_a_in_registers(int line);
  void add_product(const emu::TraceEvent& event);

  std::vector<std::string_view> lines_;
  std::map<int, bool> a_in_registers_;
  std::map<std::pair<std::array<std::uint32_t, 3>, int>, OfWarp> warps_;
  OperationCounts sums_;
};

/// Runs the case on the emulator of the architecture by this kernel. Throws
/// fovea::Error when the card has no such case, when the kernel cannot run it, or when the emulator
/// finds something wrong.
[[nodiscard]] OperationCounts count_instructions(const Card& card, const std::string& case_name,
                                                 std::string_view kernel, int arch);

/// What a unit of a case's work takes, by the counts of two smaller problems. Throws fovea::Error
/// as count_instructions does.
[[nodiscard]] std::array<OperationCounts, 2> count_units(const Card& card, const KernelWork& work,
                                                         std::string_view kernel, int arch);

/// A number that changes with the kernel's PTX, whatever its line numbers; 0 when this program has
/// no such kernel. Throws fovea::Error when its PTX has no entry of that name.
[[nodiscard]] std::uint64_t code_of(std::string_view kernel, int arch);

/// A card's timed case that was counted before: the kernel that runs it, and what one unit of its
/// work takes (lab/predict/kernel_work.hpp).
struct CountedCase {
  std::string card;
  std::string case_name;
  std::string kernel;
  std::uint64_t code = 0;  // code_of() when it was counted
  std::array<OperationCounts, 2> counts{};
};

/// Cases of kernels for the architecture, from lab/predict/data/, which scripts/count-instructions
/// writes; of an architecture without a file none. By card, as they are listed there.
[[nodiscard]] std::span<const CountedCase> counted_cases(int arch);

}  // namespace fovea::lab
