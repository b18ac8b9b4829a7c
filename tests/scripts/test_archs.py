"""kernels/archs.py with a made-up row: what kernels/variants.py makes of it compiles, and has the architecture."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATE = """
import sys
import archs
archs.ARCHS = (*archs.ARCHS, archs.Arch(
    130, "Made-up", "M100", 300, ({"kMultiply": "XMMA"},), target="sm_130a", block_scales=True))
import variants
variants.main()
"""
# What `fovea kernel list` reads.
USE = """
#include <algorithm>
#include "kernels/kernel_list.hpp"
namespace fovea::gpu {
static_assert(find_arch(130, kArchs)->target == "sm_130a");
static_assert(arch_up_to(131, kArchs).instructions.front().name == "XMMA");
constexpr bool has_code(KernelId kernel) {
  return std::ranges::any_of(kKernels[static_cast<std::size_t>(kernel)].targets, [](const Target& target) {
    return target.arch == 130 && target.code == Code::kMachine;
  });
}
static_assert(has_code(KernelId::layer_norm_bf16_3) && has_code(KernelId::layer_norm_mxfp8_3));
static_assert(!has_code(KernelId::attention_scalar_bf16_d64_s2));
}  // namespace fovea::gpu
"""


@pytest.fixture
def generated(tmp_path):
    code = subprocess.run(
        [sys.executable, "-c", GENERATE, tmp_path],
        env=os.environ | {"PYTHONPATH": str(ROOT / "kernels")},
        capture_output=True,
        text=True,
    )
    assert code.returncode == 0, code.stderr
    return tmp_path


def test_kernels_for_all_gpus_are_compiled_for_it(generated):
    units = (generated / "units.cmake").read_text()
    assert "layer_norm_bf16_3|sm_130|compute_90|product|ON" in units
    assert "pool_mean|sm_130|" in units and "attention_online_bf16|sm_130" not in units


def test_the_tables_of_the_host_have_it(generated):
    (generated / "use.cpp").write_text(USE)
    compiled = subprocess.run(
        ["c++", "-std=c++20", "-fsyntax-only", f"-I{generated}/include", f"-I{ROOT}", generated / "use.cpp"],
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stderr
