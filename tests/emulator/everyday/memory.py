"""Kernels of loads and stores: vectors, cache hints, shared memory of all kinds, generic pointers, odd structs."""

import numpy

from .table import BITS, COUNT, INDEX, LONG_BITS, NEAR, add, lanewise, out

FAMILY = "memory"
HEADERS = ("cstring",)
HALF = COUNT // 2
SIMPLE = "const unsigned* x, unsigned* y"


def memory(name, body, wanted, x=BITS, parameters=SIMPLE, block=COUNT, **more):
    add(
        FAMILY,
        name,
        parameters,
        "int i = threadIdx.x;\n" + body,
        [x, out(wanted)],
        block=block,
        headers=HEADERS,
        **more,
    )


memory("float4_copy", "float4 v = x[i]; v.x += v.w; y[i] = v;",
       (NEAR.reshape(16, 4) + NEAR.reshape(16, 4)[:, 3:] * numpy.float32([1, 0, 0, 0])), NEAR,
       "const float4* x, float4* y", COUNT // 4)  # fmt: skip
memory("int2_copy", "int2 v = x[i]; y[i] = make_int2(v.y, v.x);", BITS.view("i4").reshape(-1, 2)[:, ::-1],
       BITS.view("i4"), "const int2* x, int2* y", HALF)  # fmt: skip
memory("long2_copy", "ulonglong2 v = x[i]; v.x ^= v.y; y[i] = v;",
       numpy.stack([LONG_BITS[::2] ^ LONG_BITS[1::2], LONG_BITS[1::2]], 1), LONG_BITS,
       "const ulonglong2* x, ulonglong2* y", HALF)  # fmt: skip
memory("uchar4_copy", "uchar4 v = x[i]; y[i] = make_uchar4(v.w, v.z, v.y, v.x);", BITS.byteswap(), BITS,
       "const uchar4* x, uchar4* y")  # fmt: skip
memory("float3_copy", "float3 v = x[i]; y[i] = make_float3(v.z, v.x, v.y);", NEAR[:63].reshape(21, 3)[:, [2, 0, 1]],
       NEAR, "const float3* x, float3* y", 21)  # fmt: skip
memory("eight_bytes", "y[i] = *(const unsigned long long*)(x + 2 * i);", BITS.view("u8"), BITS,
       "const unsigned* x, unsigned long long* y", HALF)  # fmt: skip
memory("bytes", "y[i] = x[i] + x[255 - i];",
       (BITS.view("u1") + BITS.view("u1")[::-1]), BITS, "const unsigned char* x, unsigned char* y", 256)  # fmt: skip
memory(
    "shorts_in_memory", "y[i] = x[i] * 3;", (BITS.view("i2") * 3).astype("i2"), BITS, "const short* x, short* y", 128
)
for name, load in [
    ("ldg", "__ldg(x + i)"),
    ("ldcs", "__ldcs(x + i)"),
    ("ldcg", "__ldcg(x + i)"),
    ("ldca", "__ldca(x + i)"),
    ("ldcv", "__ldcv(x + i)"),
    ("ldlu", "__ldlu(x + i)"),
]:
    memory(f"load_{name}", f"y[i] = {load} + 1;", BITS + 1)
for name in ("stcs", "stcg", "stwb", "stwt"):
    memory(f"store_{name}", f"__{name}(y + i, x[i] * 2);", BITS * 2)
memory("load_ldg_float4", "y[i] = __ldg(x + 15 - i);", NEAR.reshape(16, 4)[::-1], NEAR, "const float4* x, float4* y",
       COUNT // 4)  # fmt: skip
memory("load_hints", 'unsigned v; asm("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(v) : "l"(x + i)); y[i] = v;',
       BITS, lowest=80)  # fmt: skip
memory("load_policy",
       "unsigned v; unsigned long long policy;\n"
       'asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));\n'
       'asm("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v) : "l"(x + i), "l"(policy)); y[i] = v;', BITS,
       lowest=80)  # fmt: skip
memory("load_relaxed", 'unsigned v; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(x + i)); y[i] = v;',
       BITS)  # fmt: skip
memory("prefetch", 'asm("prefetch.global.L2 [%0];" :: "l"(x + i)); asm("prefetch.global.L1 [%0];" :: "l"(x)); y[i] = x[i];',
       BITS)  # fmt: skip
memory("shared_tile", "__shared__ float s[8][9]; s[i / 8][i % 8] = x[i]; __syncthreads(); y[i] = s[i % 8][i / 8];",
       NEAR.reshape(8, 8).T, NEAR, "const float* x, float* y")  # fmt: skip
memory("dynamic_shared", "extern __shared__ unsigned tail[]; tail[i] = x[i]; __syncthreads(); y[i] = tail[63 - i];",
       BITS[::-1], shared_bytes=4 * COUNT)  # fmt: skip
memory("dynamic_shared_parts",
       "extern __shared__ __align__(16) unsigned char parts[]; double* a = (double*)parts; float* b = (float*)(parts + 512);\n"
       "a[i] = x[i] * 2.0; b[i] = x[i]; __syncthreads(); y[i] = (float)a[63 - i] + b[i ^ 1];",
       NEAR[::-1] * 2 + NEAR[INDEX ^ 1], NEAR, "const float* x, float* y", shared_bytes=768)  # fmt: skip
memory("large_dynamic_shared", "extern __shared__ unsigned large[]; large[i * 400] = x[i]; __syncthreads(); y[i] = large[(63 - i) * 400];",
       BITS[::-1], shared_bytes=4 * 400 * COUNT, lowest=80)  # fmt: skip
memory("shared_struct", "struct Cell { unsigned a; unsigned char b; double c; }; __shared__ Cell s[64];\n"
       "s[i].a = x[i]; s[i].b = i; s[i].c = 0.5 * i; __syncthreads();\n"
       "y[i] = s[63 - i].a + s[(i + 1) & 63].b + (unsigned)(s[i ^ 2].c * 2);",
       BITS[::-1] + (INDEX + 1) % 64 + (INDEX ^ 2))  # fmt: skip
memory("generic_pointer", "__shared__ unsigned s[64]; s[i] = x[i] * 2; __syncthreads();\n"
       "const unsigned* p = (x[i] & 1) ? s + (i ^ 1) : x + (i ^ 2); y[i] = *p;",
       numpy.where(BITS & 1, BITS[INDEX ^ 1] * 2, BITS[INDEX ^ 2]))  # fmt: skip
memory("which_space", "__shared__ unsigned s[1]; unsigned l[2] = {x[i], 1};\n"
       "const void* p = i % 3 == 0 ? (const void*)x : i % 3 == 1 ? (const void*)s : (const void*)&l[x[i] & 1];\n"
       "y[i] = __isGlobal(p) + 2 * __isShared(p) + 4 * __isLocal(p);", numpy.uint32([1, 2, 4])[INDEX % 3])  # fmt: skip
memory("shared_address", "__shared__ unsigned s[64]; s[i] = x[i]; __syncthreads(); unsigned v;\n"
       'asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"((unsigned)__cvta_generic_to_shared(&s[i ^ 3]))); y[i] = v;',
       BITS[INDEX ^ 3])  # fmt: skip
memory("copied_memory", "unsigned char a[16]; memcpy(a, x + (i & 60), 16); memset(a + 4, 7, 3); unsigned r;\n"
       "memcpy(&r, a + 3, 4); y[i] = r;",
       ((BITS[INDEX & 60] >> 24) | 0x07070700).astype("u4"))  # fmt: skip
memory("bit_fields", "struct Fields { unsigned a : 5, b : 11; int c : 9; unsigned d : 7; } f; f.a = x[i]; f.b = x[i] >> 3;\n"
       "f.c = (int)(x[i] >> 7); f.d = i; y[i] = f.a + f.b * 32 + (unsigned)f.c + f.d * 65536;",
       ((BITS & 31) + (BITS >> 3 & 2047) * 32 + (((BITS >> 7 & 511) ^ 256) - 256).astype("u4") + INDEX * 65536))  # fmt: skip
memory(
    "union",
    "union { float f; unsigned u; unsigned char b[4]; } n; n.u = x[i]; n.b[1] ^= 0xff; y[i] = n.u;",
    BITS ^ 0xFF00,
)
memory("device_array", "scratch[i] = x[i]; __syncthreads(); y[i] = scratch[i ^ 8];", BITS[INDEX ^ 8],
       before="__device__ unsigned scratch[64];")  # fmt: skip
memory(
    "device_malloc",
    "unsigned* p = (unsigned*)malloc(8); p[0] = x[i]; p[1] = i; y[i] = p[0] + p[1]; free(p);",
    BITS + INDEX,
)
lanewise(FAMILY, "pitched_rows", "y[i] = *(const unsigned*)((const char*)in_v + (i / 8) * 32 + (i % 8) * 4) + 1;",
         BITS + 1, [BITS])  # fmt: skip
