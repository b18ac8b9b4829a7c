// Whether a test is worth its time where FOVEA_CPU_ISA asks for an instruction set.
#pragma once

#include <cstdlib>
#include <string_view>

#include "cpu/isa.hpp"

namespace fovea::cpu {

/// False where the CPU lacks the instruction set that FOVEA_CPU_ISA names, so that a lower one
/// would be tested once more.
inline bool has_asked_isa() {
  const char* const asked = std::getenv("FOVEA_CPU_ISA");  // NOLINT(concurrency-mt-unsafe)
  return asked == nullptr || std::string_view(asked).empty() || isa_name() == asked;
}

}  // namespace fovea::cpu
