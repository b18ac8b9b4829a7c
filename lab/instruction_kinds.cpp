// The table of instructions, by what they do and the architectures that have them (CUDA Binary
// Utilities, "Instruction Set Reference").
#include "lab/instruction_kinds.hpp"

#include <algorithm>
#include <array>

namespace fovea::lab {
namespace {

using Kind = InstructionKind;

struct ListedInstruction {
  std::string_view name;
  Kind kind;
  int first_arch = 80;
  int last_arch = 129;
};

constexpr int kHopper = 90;
constexpr int kBlackwell = 100;
constexpr int kTensorMemoryEnd = 119;  // sm_120 has none

constexpr std::array kListed = {
    // Of a warp
    ListedInstruction{"HMMA", Kind::kMultiply}, ListedInstruction{"IMMA", Kind::kMultiply},
    ListedInstruction{"BMMA", Kind::kMultiply}, ListedInstruction{"DMMA", Kind::kMultiply},
    ListedInstruction{"QMMA", Kind::kMultiply, 89},
    ListedInstruction{"OMMA", Kind::kMultiply, kBlackwell},
    // Of a warpgroup
    ListedInstruction{"HGMMA", Kind::kMultiply, kHopper, kHopper},
    ListedInstruction{"QGMMA", Kind::kMultiply, kHopper, kHopper},
    ListedInstruction{"IGMMA", Kind::kMultiply, kHopper, kHopper},
    ListedInstruction{"BGMMA", Kind::kMultiply, kHopper, kHopper},
    // Of one thread, to tensor memory
    ListedInstruction{"UTCHMMA", Kind::kMultiply, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCQMMA", Kind::kMultiply, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCIMMA", Kind::kMultiply, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCOMMA", Kind::kMultiply, kBlackwell, kTensorMemoryEnd},
    // Loads, stores and atomics
    ListedInstruction{"LD", Kind::kAccess}, ListedInstruction{"LDG", Kind::kAccess},
    ListedInstruction{"LDS", Kind::kAccess}, ListedInstruction{"LDL", Kind::kAccess},
    ListedInstruction{"LDSM", Kind::kAccess}, ListedInstruction{"LDGSTS", Kind::kAccess},
    ListedInstruction{"ST", Kind::kAccess}, ListedInstruction{"STG", Kind::kAccess},
    ListedInstruction{"STS", Kind::kAccess}, ListedInstruction{"STL", Kind::kAccess},
    ListedInstruction{"STSM", Kind::kAccess, kHopper},
    ListedInstruction{"STAS", Kind::kAccess, kHopper}, ListedInstruction{"ATOM", Kind::kAccess},
    ListedInstruction{"ATOMG", Kind::kAccess}, ListedInstruction{"ATOMS", Kind::kAccess},
    ListedInstruction{"RED", Kind::kAccess}, ListedInstruction{"REDG", Kind::kAccess},
    ListedInstruction{"REDAS", Kind::kAccess, kHopper}, ListedInstruction{"SULD", Kind::kAccess},
    ListedInstruction{"SUST", Kind::kAccess}, ListedInstruction{"SUATOM", Kind::kAccess},
    ListedInstruction{"SURED", Kind::kAccess}, ListedInstruction{"TEX", Kind::kAccess},
    ListedInstruction{"TLD", Kind::kAccess}, ListedInstruction{"TLD4", Kind::kAccess},
    // Copies in bulk
    ListedInstruction{"UTMALDG", Kind::kAccess, kHopper},
    ListedInstruction{"UTMASTG", Kind::kAccess, kHopper},
    ListedInstruction{"UTMAREDG", Kind::kAccess, kHopper},
    ListedInstruction{"UTMAPF", Kind::kAccess, kHopper},
    ListedInstruction{"UBLKCP", Kind::kAccess, kHopper},
    ListedInstruction{"UBLKRED", Kind::kAccess, kHopper},
    ListedInstruction{"UBLKPF", Kind::kAccess, kHopper},
    // Tensor memory
    ListedInstruction{"LDTM", Kind::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"LDT", Kind::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"STTM", Kind::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"STT", Kind::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCCP", Kind::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCSHIFT", Kind::kAccess, kBlackwell, kTensorMemoryEnd},
    // Lanes
    ListedInstruction{"REDUX", Kind::kReduce},
    ListedInstruction{"CREDUX", Kind::kReduce, kBlackwell},
    // Order
    ListedInstruction{"BAR", Kind::kSynchronise},
    ListedInstruction{"UCGABAR_ARV", Kind::kSynchronise, kHopper},
    ListedInstruction{"UCGABAR_WAIT", Kind::kSynchronise, kHopper},
    ListedInstruction{"SYNCS", Kind::kSynchronise, kHopper},
    ListedInstruction{"UTCBAR", Kind::kSynchronise, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"FENCE", Kind::kSynchronise, kHopper},
    ListedInstruction{"MEMBAR", Kind::kSynchronise},
    ListedInstruction{"LDGDEPBAR", Kind::kSynchronise},
    ListedInstruction{"UTMACMDFLUSH", Kind::kSynchronise, kHopper},
    ListedInstruction{"USETMAXREG", Kind::kSynchronise, kHopper},
    ListedInstruction{"CALL", Kind::kLeave}, ListedInstruction{"EXIT", Kind::kLeave},
    // Named like those of memory, and none of them: constants, descriptors, and the right to
    // columns of tensor memory
    ListedInstruction{"LDC", Kind::kOther}, ListedInstruction{"LDCU", Kind::kOther, kBlackwell},
    ListedInstruction{"UTMACCTL", Kind::kOther, kHopper},
    ListedInstruction{"UTCATOMSWS", Kind::kOther, kBlackwell, kTensorMemoryEnd}};

/// How names of instructions begin that multiply or touch memory.
constexpr std::array<std::string_view, 12> kBeginnings = {
    "LD", "ST", "ATOM", "RED", "UTMA", "UTC", "UBLK", "SULD", "SUST", "SUATOM", "SURED", "TLD"};

std::string_view operation_of_name(std::string_view name) {
  return name.substr(0, name.find('.'));
}

const ListedInstruction* find_listed(std::string_view name, int arch) {
  const std::string_view operation = operation_of_name(name);
  const auto* const found = std::ranges::find(kListed, operation, &ListedInstruction::name);
  return found != kListed.end() &&
                 (arch == 0 || (found->first_arch <= arch && arch <= found->last_arch))
             ? found
             : nullptr;
}

}  // namespace

InstructionKind kind_of(std::string_view name, int arch) {
  const ListedInstruction* const found = find_listed(name, arch);
  return found == nullptr ? Kind::kOther : found->kind;
}

bool is_work(InstructionKind kind) {
  return kind == Kind::kMultiply || kind == Kind::kAccess || kind == Kind::kReduce;
}

bool is_unknown(std::string_view name, int arch) {
  const std::string_view operation = operation_of_name(name);
  const bool is_like_one =
      operation.ends_with("MMA") || std::ranges::any_of(kBeginnings, [&](std::string_view begin) {
        return operation.starts_with(begin);
      });
  return is_like_one && find_listed(name, arch) == nullptr;
}

}  // namespace fovea::lab
