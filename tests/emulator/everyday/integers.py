"""Kernels of whole numbers: division, products' high halves, bits, shifts, narrow types."""

import numpy

from .table import BITS, INDEX, LONG_BITS, OTHER_BITS, OTHER_LONG_BITS, lanewise

FAMILY = "integers"
SIGNED, OTHER_SIGNED = BITS.view("i4"), OTHER_BITS.view("i4")
LONG, OTHER_LONG = LONG_BITS.view("i8"), OTHER_LONG_BITS.view("i8")
SHIFT = INDEX % 32


def whole(name, expression, of, *inputs, kind=None, **more):
    """Enters a kernel whose result is computed by Python's whole numbers, cut off to the type of the result."""
    kind = numpy.dtype(kind or inputs[0].dtype)
    bits = 8 * kind.itemsize
    results = [of(*(int(n) for n in numbers)) % 2**bits for numbers in zip(*inputs)]
    lanewise(FAMILY, name, expression, numpy.array(results, f"u{kind.itemsize}").view(kind), list(inputs), **more)


def quotient(a, b):
    """The quotient, cut off towards zero as in C."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def bit_string(n, bits):
    return f"{n % 2**bits:0{bits}b}"


DIVISOR, LONG_DIVISOR = OTHER_SIGNED >> 12 | 1, OTHER_LONG >> 20 | 1
whole("int_divide", "v / w", quotient, SIGNED, DIVISOR)
whole("int_remainder", "v % w", lambda a, b: a - b * quotient(a, b), SIGNED, DIVISOR)
whole("uint_divide", "v / w + v % w", lambda a, b: a // b + a % b, BITS, DIVISOR.view("u4"))
whole("long_divide", "v / w", quotient, LONG, LONG_DIVISOR)
whole("long_remainder", "v % w", lambda a, b: a - b * quotient(a, b), LONG, LONG_DIVISOR)
whole("ulong_divide", "v / w + v % w", lambda a, b: a // b + a % b, LONG_BITS, LONG_DIVISOR.view("u8"))
whole("divide_by_ten", "v / 10 + v % 7", lambda a: quotient(a, 10) + a - 7 * quotient(a, 7), SIGNED)
whole("long_divide_by_ten", "v / 10", lambda a: quotient(a, 10), LONG)
whole("multiply_high", "__mulhi(v, w)", lambda a, b: a * b >> 32, SIGNED, OTHER_SIGNED)
whole("umultiply_high", "__umulhi(v, w)", lambda a, b: a * b >> 32, BITS, OTHER_BITS)
whole("multiply_high_long", "__mul64hi(v, w)", lambda a, b: a * b >> 64, LONG, OTHER_LONG)
whole("umultiply_high_long", "__umul64hi(v, w)", lambda a, b: a * b >> 64, LONG_BITS, OTHER_LONG_BITS)
whole("multiply_24", "__mul24(v, w)", lambda a, b: (a << 8) * (b << 8) >> 16, SIGNED >> 8, OTHER_SIGNED >> 8)
whole("umultiply_24", "__umul24(v, w)", lambda a, b: (a % 2**24) * (b % 2**24), BITS, OTHER_BITS)
whole("multiply_wide", "(long long)v * w", lambda a, b: a * b, SIGNED, OTHER_SIGNED, kind="i8")
whole("multiply_long", "v * w + 12345", lambda a, b: a * b + 12345, LONG_BITS, OTHER_LONG_BITS)
whole("multiply_128", "(unsigned long long)(((unsigned __int128)v * w + v) >> 37)", lambda a, b: a * b + a >> 37,
      LONG_BITS, OTHER_LONG_BITS)  # fmt: skip
whole("divide_128", "(unsigned long long)(((unsigned __int128)v << 30 | w >> 34) / w)",
      lambda a, b: (a << 30 | b >> 34) // b, LONG_BITS, OTHER_LONG_BITS | numpy.uint64(1))  # fmt: skip
whole("funnel_left", "__funnelshift_l(v, w, i)", lambda a, b, i: (b << 32 | a) << (i % 32) >> 32, BITS, OTHER_BITS,
      INDEX, kind="u4")  # fmt: skip
whole("funnel_right", "__funnelshift_r(v, w, i)", lambda a, b, i: (b << 32 | a) >> (i % 32), BITS, OTHER_BITS, INDEX)
whole("funnel_left_clamped", "__funnelshift_lc(v, w, i)", lambda a, b, i: (b << 32 | a) << min(i, 32) >> 32, BITS,
      OTHER_BITS, INDEX)  # fmt: skip
whole("funnel_right_clamped", "__funnelshift_rc(v, w, i)", lambda a, b, i: (b << 32 | a) >> min(i, 32), BITS,
      OTHER_BITS, INDEX)  # fmt: skip
whole("rotate", "(v << 5) | (v >> 27)", lambda a: a << 5 | a >> 27, BITS)
whole("rotate_by", "(v << w) | (v >> ((32 - w) & 31))", lambda a, n: a << n | a >> (-n % 32), BITS, SHIFT)
whole("shifts_long", "(v << w) ^ (unsigned long long)((long long)v >> (w & 15))",
      lambda a, n: a << n ^ (a - (a >> 63 << 64)) >> n % 16, LONG_BITS, INDEX)  # fmt: skip
whole("reverse_bits", "__brev(v)", lambda a: int(bit_string(a, 32)[::-1], 2), BITS)
whole("reverse_bits_long", "__brevll(v)", lambda a: int(bit_string(a, 64)[::-1], 2), LONG_BITS)
whole("leading_zeros", "__clz(v)", lambda a: 32 - a.bit_length(), BITS >> SHIFT, kind="i4")
whole("leading_zeros_long", "__clzll(v)", lambda a: 64 - a.bit_length(), LONG_BITS >> INDEX.astype("u8"), kind="i4")
whole("count_bits", "__popc(v)", lambda a: a.bit_count(), BITS, kind="i4")
whole("count_bits_long", "__popcll(v)", lambda a: a.bit_count(), LONG_BITS, kind="i4")
whole("first_bit", "__ffs(v)", lambda a: (a & -a).bit_length(), BITS << SHIFT, kind="i4")
whole("first_bit_long", "__ffsll(v)", lambda a: (a & -a).bit_length(), LONG_BITS << INDEX.astype("u8"), kind="i4")
whole("byte_permute", "__byte_perm(v, w, 0x5702)",
      lambda a, b: sum(((b << 32 | a) >> 8 * k & 255) << 8 * at for at, k in enumerate((2, 0, 7, 5))), BITS,
      OTHER_BITS)  # fmt: skip
whole("byte_permute_signs", 'unsigned r; asm("prmt.b32 %0, %1, %2, 0x8c3a;" : "=r"(r) : "r"(v), "r"(w)); y[i] = r;',
      lambda a, b: sum(
          ((b << 32 | a) >> 8 * (k & 7) & 255 if k < 8 else 255 * ((b << 32 | a) >> 8 * (k & 7) + 7 & 1)) << 8 * at
          for at, k in enumerate((10, 3, 12, 8))), BITS, OTHER_BITS)  # fmt: skip
whole("sum_of_differences", "__sad(v, w, 9u)", lambda a, b: abs(a - b) + 9, SIGNED >> 2, OTHER_SIGNED >> 2, kind="u4")
whole("usum_of_differences", "__usad(v, w, 9u)", lambda a, b: abs(a - b) + 9, BITS, OTHER_BITS)
whole("average", "__hadd(v, w)", lambda a, b: a + b >> 1, SIGNED, OTHER_SIGNED)
whole("average_rounded", "__rhadd(v, w)", lambda a, b: a + b + 1 >> 1, SIGNED, OTHER_SIGNED)
whole("uaverage", "__uhadd(v, w)", lambda a, b: a + b >> 1, BITS, OTHER_BITS)
whole("absolute", "abs(v) - abs(w)", lambda a, b: abs(a) - abs(b), SIGNED >> 1, OTHER_SIGNED >> 1)
whole("absolute_long", "llabs(v)", abs, LONG)
whole("extremes", "(unsigned)max(v, w) - (unsigned)min(v, w)", lambda a, b: max(a, b) - min(a, b), SIGNED, OTHER_SIGNED)
whole("extremes_long", "max(v, w) ^ min(v, w)", lambda a, b: max(a, b) ^ min(a, b), LONG, OTHER_LONG)
whole("chars", "(unsigned char)(v * w + 3)", lambda a, b: a * b + 3, (BITS >> 8 & 255).astype("u1"),
      (OTHER_BITS & 255).astype("u1"))  # fmt: skip
whole("shorts", "(short)(v * w) >> 3", lambda a, b: ((a * b + 2**15) % 2**16 - 2**15) >> 3,
      (SIGNED >> 16).astype("i2"), (OTHER_SIGNED >> 16).astype("i2"))  # fmt: skip
whole("nth_set_bit", "__fns(v, 0, 3)",
      lambda a: ([k for k in range(32) if a >> k & 1] + [2**32 - 1] * 3)[2], BITS | numpy.uint32(7 << 29))  # fmt: skip


def signed_bytes(n):
    return [(n >> 8 * k & 255) - 2 * (n >> 8 * k & 128) for k in range(4)]


def plain_bytes(n):
    return [n >> 8 * k & 255 for k in range(4)]


whole("dp4a", "__dp4a(v, w, 100)", lambda a, b: sum(map(int.__mul__, signed_bytes(a), signed_bytes(b))) + 100, SIGNED,
      OTHER_SIGNED)  # fmt: skip
whole("udp4a", "__dp4a(v, w, 100u)", lambda a, b: sum(map(int.__mul__, plain_bytes(a), plain_bytes(b))) + 100, BITS,
      OTHER_BITS)  # fmt: skip
whole("dp2a_low", "__dp2a_lo(v, w, 7u)",
      lambda a, b: (a & 65535) * (b & 255) + (a >> 16) * (b >> 8 & 255) + 7, BITS, OTHER_BITS)  # fmt: skip
whole("dp2a_high", "__dp2a_hi(v, w, 7u)",
      lambda a, b: (a & 65535) * (b >> 16 & 255) + (a >> 16) * (b >> 24) + 7, BITS, OTHER_BITS)  # fmt: skip


def inline(name, instruction, of, *inputs, **more):
    """Enters a kernel of one instruction by inline assembly: %0 is the result, %1 and so on are the operands."""
    kind = numpy.dtype(more.pop("kind", inputs[0].dtype))
    letter = {4: "r", 8: "l"}
    operands = ", ".join(f'"{letter[x.itemsize]}"({n})' for n, x in zip("vwu", inputs))
    result = {"u4": "unsigned", "u8": "unsigned long long", "i4": "int", "i8": "long long"}[kind.str[1:]]
    whole(name, f'{result} r; asm("{instruction}" : "={letter[kind.itemsize]}"(r) : {operands}); y[i] = r;', of,
          *inputs, kind=kind, **more)  # fmt: skip


inline("bit_field_extract", "bfe.u32 %0, %1, 5, 9;", lambda a: a >> 5 & 511, BITS)
inline("bit_field_extract_sign", "bfe.s32 %0, %1, %2, 6;", lambda a, p: ((a >> p & 63) ^ 32) - 32, SIGNED,
       SHIFT % 26)  # fmt: skip
inline("bit_field_insert", "bfi.b32 %0, %1, %2, 4, 11;", lambda a, b: b & ~(2047 << 4) | (a & 2047) << 4, BITS,
       OTHER_BITS)  # fmt: skip
inline("bit_field_insert_long", "bfi.b64 %0, %1, %2, 20, 30;",
       lambda a, b: b & ~((2**30 - 1) << 20) | (a & 2**30 - 1) << 20, LONG_BITS, OTHER_LONG_BITS)  # fmt: skip
inline("three_inputs", "lop3.b32 %0, %1, %2, %3, 0xca;", lambda a, b, c: a & b | ~a & c, BITS, OTHER_BITS, BITS ^ INDEX)
inline("highest_bit", "bfind.u32 %0, %1;", lambda a: a.bit_length() - 1, BITS >> SHIFT)
inline("highest_bit_signed", "bfind.shiftamt.s32 %0, %1;",
       lambda a: 31 - (a if a >= 0 else ~a).bit_length() + 1 if a not in (0, -1) else -1, SIGNED >> SHIFT.view("i4"),
       kind="u4")  # fmt: skip
inline("shift_beyond", "shl.b32 %0, %1, %2;", lambda a, n: a << n if n < 32 else 0, BITS, INDEX)
inline("shift_right_beyond", "shr.s32 %0, %1, %2;", lambda a, n: a >> n, SIGNED, INDEX)
inline("saturated_add", "add.sat.s32 %0, %1, %2;", lambda a, b: min(max(a + b, -(2**31)), 2**31 - 1), SIGNED,
       OTHER_SIGNED)  # fmt: skip
inline("mask_bits", "bmsk.clamp.b32 %0, %1, %2;", lambda p, n: (2**n - 1) << p, SHIFT, INDEX % 7, lowest=75)
inline("sign_extend", "szext.wrap.s32 %0, %1, 11;", lambda a: ((a & 2047) ^ 1024) - 1024, SIGNED, lowest=75)
