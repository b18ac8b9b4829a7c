"""Kernels of special registers, clocks, sleeping, hints to the compiler, and instructions that end a kernel."""

import numpy

from .table import BITS, COUNT, INDEX, add, lanewise, out

FAMILY = "machine"
ONES = numpy.ones(COUNT, "u4")


def register(name, width, condition, wanted=ONES, **more):
    """Enters a kernel that reads a special register into r."""
    kind, letter = {32: ("unsigned", "r"), 64: ("unsigned long long", "l")}[width]
    body = f'{kind} r; asm volatile("mov.u{width} %0, %%{name};" : "={letter}"(r)); y[i] = {condition};'
    lanewise(FAMILY, f"register_{name.replace('.', '_')}", body, wanted, [BITS], **more)


register("smid", 32, "r < 1024u")
register("nsmid", 32, "r > 0u")
register("warpid", 32, "r < 64u")
register("nwarpid", 32, "r > 0u")
register("laneid", 32, "r", INDEX % 32)
register("gridid", 64, "r == r")
register("clock", 32, "r == r")
register("globaltimer", 64, "r > 0ull")
register("dynamic_smem_size", 32, "r", ONES * 128, shared_bytes=128)
register("total_smem_size", 32, "r >= 128u", shared_bytes=128)
register("nctaid.x", 32, "r", ONES)
register("envreg0", 32, "r == r")
register("clusterid.x", 32, "r + 5", ONES * 5, lowest=90)
register("cluster_nctarank", 32, "r", ONES, lowest=90)
lanewise(FAMILY, "clock64", "long long a = clock64(); unsigned s = v; for (int k = 0; k < 9; ++k) s = s * 5 + 1;\n"
         "long long b = clock64(); y[i] = s + (b > a);",
         numpy.uint32([(lambda s: [s := (s * 5 + 1) % 2**32 for _ in range(9)][-1])(int(n)) for n in BITS]) + 1, [BITS])  # fmt: skip
lanewise(FAMILY, "clock32", "unsigned a = clock(); __syncthreads(); y[i] = v + ((unsigned)clock() - a > 0u);", BITS + 1,
         [BITS])  # fmt: skip
lanewise(FAMILY, "nanosleep", "__nanosleep(50); y[i] = v;", BITS, [BITS])
lanewise(FAMILY, "assumptions", "__builtin_assume(v < 4294967295u || i < 64); if (__builtin_expect(v & 1, 0)) v += 2; y[i] = v;",
         BITS + (BITS & 1) * 2, [BITS])  # fmt: skip
lanewise(FAMILY, "trap_not_reached", "if (i >= 64) __trap(); y[i] = v;", BITS, [BITS])
lanewise(FAMILY, "exit_of_some_threads", 'y[i] = v; if (v & 1) asm volatile("exit;"); y[i] = v + 1;',
         BITS + 1 - (BITS & 1), [BITS])  # fmt: skip
lanewise(FAMILY, "unrolled_loop", "unsigned s = 0;\n#pragma unroll 4\nfor (int k = 0; k < 13; ++k) s = s * v + k;\ny[i] = s;",
         numpy.uint32([(lambda s, n: [s := (s * n + k) % 2**32 for k in range(13)][-1])(0, int(n)) for n in BITS]),
         [BITS])  # fmt: skip
lanewise(FAMILY, "programmatic_launch", 'asm volatile("griddepcontrol.wait;" ::: "memory"); y[i] = v;\n'
         'asm volatile("griddepcontrol.launch_dependents;");', BITS, [BITS], lowest=90)  # fmt: skip
add(FAMILY, "dimensions", "unsigned* y",
    "int i = (blockIdx.y * gridDim.x + blockIdx.x) * 8 + threadIdx.y * blockDim.x + threadIdx.x;\n"
    "y[i] = warpSize + 100 * gridDim.x + 1000 * gridDim.y + 10000 * blockDim.x + 100000 * blockDim.y + 1000000 * gridDim.z;",
    [out(numpy.full(48, 32 + 300 + 2000 + 40000 + 200000 + 1000000, "u4"))], grid=(3, 2), block=(4, 2))  # fmt: skip
