// The table of instructions, by what they do and the architectures that have them (CUDA Binary
// Utilities, "Instruction Set Reference").
#include "lab/code/instruction_kinds.hpp"

#include <algorithm>
#include <array>

namespace fovea::lab {
namespace {

using Does = InstructionKind;

struct ListedInstruction {
  std::string_view name;
  Does kind;
  int first_arch = 80;
  int last_arch = 129;
};

constexpr int kHopper = 90;
constexpr int kBlackwell = 100;
constexpr int kTensorMemoryEnd = 119;  // sm_120 has none

constexpr std::array kListed = {
    // Of a warp
    ListedInstruction{"HMMA", Does::kMultiply}, ListedInstruction{"IMMA", Does::kMultiply},
    ListedInstruction{"BMMA", Does::kMultiply}, ListedInstruction{"DMMA", Does::kMultiply},
    ListedInstruction{"QMMA", Does::kMultiply, 89},
    ListedInstruction{"OMMA", Does::kMultiply, kBlackwell},
    // Of a warpgroup
    ListedInstruction{"HGMMA", Does::kMultiply, kHopper, kHopper},
    ListedInstruction{"QGMMA", Does::kMultiply, kHopper, kHopper},
    ListedInstruction{"IGMMA", Does::kMultiply, kHopper, kHopper},
    ListedInstruction{"BGMMA", Does::kMultiply, kHopper, kHopper},
    // Of one thread, to tensor memory
    ListedInstruction{"UTCHMMA", Does::kMultiply, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCQMMA", Does::kMultiply, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCIMMA", Does::kMultiply, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCOMMA", Does::kMultiply, kBlackwell, kTensorMemoryEnd},
    // Loads, stores and atomics
    ListedInstruction{"LD", Does::kAccess}, ListedInstruction{"LDG", Does::kAccess},
    ListedInstruction{"LDS", Does::kAccess}, ListedInstruction{"LDL", Does::kAccess},
    ListedInstruction{"LDSM", Does::kAccess}, ListedInstruction{"LDGSTS", Does::kAccess},
    ListedInstruction{"ST", Does::kAccess}, ListedInstruction{"STG", Does::kAccess},
    ListedInstruction{"STS", Does::kAccess}, ListedInstruction{"STL", Does::kAccess},
    ListedInstruction{"STSM", Does::kAccess, kHopper},
    ListedInstruction{"STAS", Does::kAccess, kHopper}, ListedInstruction{"ATOM", Does::kAccess},
    ListedInstruction{"ATOMG", Does::kAccess}, ListedInstruction{"ATOMS", Does::kAccess},
    ListedInstruction{"RED", Does::kAccess}, ListedInstruction{"REDG", Does::kAccess},
    ListedInstruction{"REDAS", Does::kAccess, kHopper}, ListedInstruction{"SULD", Does::kAccess},
    ListedInstruction{"SUST", Does::kAccess}, ListedInstruction{"SUATOM", Does::kAccess},
    ListedInstruction{"SURED", Does::kAccess}, ListedInstruction{"TEX", Does::kAccess},
    ListedInstruction{"TLD", Does::kAccess}, ListedInstruction{"TLD4", Does::kAccess},
    // Copies in bulk
    ListedInstruction{"UTMALDG", Does::kAccess, kHopper},
    ListedInstruction{"UTMASTG", Does::kAccess, kHopper},
    ListedInstruction{"UTMAREDG", Does::kAccess, kHopper},
    ListedInstruction{"UTMAPF", Does::kAccess, kHopper},
    ListedInstruction{"UBLKCP", Does::kAccess, kHopper},
    ListedInstruction{"UBLKRED", Does::kAccess, kHopper},
    ListedInstruction{"UBLKPF", Does::kAccess, kHopper},
    // Tensor memory
    ListedInstruction{"LDTM", Does::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"LDT", Does::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"STTM", Does::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"STT", Does::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCCP", Does::kAccess, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"UTCSHIFT", Does::kAccess, kBlackwell, kTensorMemoryEnd},
    // Lanes
    ListedInstruction{"REDUX", Does::kReduce},
    ListedInstruction{"CREDUX", Does::kReduce, kBlackwell},
    // Order
    ListedInstruction{"BAR", Does::kSynchronise},
    ListedInstruction{"UCGABAR_ARV", Does::kSynchronise, kHopper},
    ListedInstruction{"UCGABAR_WAIT", Does::kSynchronise, kHopper},
    ListedInstruction{"SYNCS", Does::kSynchronise, kHopper},
    ListedInstruction{"UTCBAR", Does::kSynchronise, kBlackwell, kTensorMemoryEnd},
    ListedInstruction{"FENCE", Does::kSynchronise, kHopper},
    ListedInstruction{"MEMBAR", Does::kSynchronise},
    ListedInstruction{"LDGDEPBAR", Does::kSynchronise},
    ListedInstruction{"UTMACMDFLUSH", Does::kSynchronise, kHopper},
    ListedInstruction{"USETMAXREG", Does::kSynchronise, kHopper},
    ListedInstruction{"CALL", Does::kLeave}, ListedInstruction{"EXIT", Does::kLeave},
    // Named like those of memory, and none of them: constants, descriptors, and the right to
    // columns of tensor memory
    ListedInstruction{"LDC", Does::kOther}, ListedInstruction{"LDCU", Does::kOther, kBlackwell},
    ListedInstruction{"UTMACCTL", Does::kOther, kHopper},
    ListedInstruction{"UTCATOMSWS", Does::kOther, kBlackwell, kTensorMemoryEnd}};

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
  return found == nullptr ? Does::kOther : found->kind;
}

bool is_work(InstructionKind kind) {
  return kind == Does::kMultiply || kind == Does::kAccess || kind == Does::kReduce;
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
