// Instruction sets: oneDNN's own detection, lowered for oneDNN and Highway together.
#include "cpu/isa.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include <hwy/highway.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/error.hpp"

namespace fovea::cpu {
namespace {

constexpr const char* kVariable = "FOVEA_CPU_ISA";

struct Level {
  std::string_view name;
  dnnl::cpu_isa isa;
  std::int64_t highway_without;  // Highway targets above the level
};

constexpr std::array<Level, 4> kLevels{{
    {"avx2", dnnl::cpu_isa::avx2, HWY_AVX3 | HWY_AVX3_DL},
    {"avx512", dnnl::cpu_isa::avx512_core_vnni, 0},
    {"avx512_bf16", dnnl::cpu_isa::avx512_core_bf16, 0},
    {"amx", dnnl::cpu_isa::avx512_core_amx, 0},
}};

using IsaAndName = std::pair<dnnl::cpu_isa, const char*>;
constexpr IsaAndName kIsaNames[] = {{dnnl::cpu_isa::sse41, "sse41"},
                                    {dnnl::cpu_isa::avx, "avx"},
                                    {dnnl::cpu_isa::avx2, "avx2"},
                                    {dnnl::cpu_isa::avx2_vnni, "avx2_vnni"},
                                    {dnnl::cpu_isa::avx512_core, "avx512_core"},
                                    {dnnl::cpu_isa::avx512_core_vnni, "avx512_core_vnni"},
                                    {dnnl::cpu_isa::avx512_core_bf16, "avx512_core_bf16"},
                                    {dnnl::cpu_isa::avx512_core_amx, "avx512_core_amx"}};

void limit_isa() {
  const char* const value = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): only read
  if (value == nullptr || *value == '\0') {
    return;
  }
  for (const Level& level : kLevels) {
    if (level.name == value) {
      if (dnnl::set_max_cpu_isa(level.isa) != dnnl::status::success) {
        fail("{}={} comes too late: oneDNN has been used in this process already", kVariable,
             value);
      }
      if (level.highway_without != 0) {
        hwy::DisableTargets(level.highway_without);
      }
      return;
    }
  }
  fail("{}={} names no instruction set; use avx2, avx512, avx512_bf16 or amx", kVariable, value);
}

}  // namespace

void limit_isa_from_environment() {
  static const bool once = [] {
    limit_isa();
    return true;
  }();
  static_cast<void>(once);
}

std::string isa_name() {
  const auto* const found =
      std::ranges::find(kIsaNames, dnnl::get_effective_cpu_isa(), &IsaAndName::first);
  return found == std::end(kIsaNames) ? "x86-64" : found->second;
}

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

bool has_bf16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

}  // namespace fovea::cpu
