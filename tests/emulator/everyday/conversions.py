"""Kernels of conversions between whole numbers and floats, and of floats' bits."""

import fractions

import numpy

from .table import BITS, COUNT, HARD, INDEX, LARGE, LONG_BITS, NEAR, directed, lanewise

FAMILY = "conversions"
WIDE = (HARD * numpy.float32(1000)).astype("f4")
TO_WHOLE = {"rn": numpy.rint, "rz": numpy.trunc, "ru": numpy.ceil, "rd": numpy.floor}
SIGNED = BITS.view("i4")
LONG = LONG_BITS.view("i8")
# What no whole number of 32 bits is, and NaN: PTX clamps, and makes 0 of NaN.
BEYOND = numpy.tile(numpy.float32([3e9, -3e9, 5e9, -1, numpy.inf, -numpy.inf, numpy.nan, 0.75]), COUNT // 8)
CLAMPED = {
    "i4": [2**31 - 1, -(2**31), 2**31 - 1, -1, 2**31 - 1, -(2**31), 0, 0],
    "u4": [3000000000, 0, 2**32 - 1, 0, 2**32 - 1, 0, 0, 0],
}

for mode, of in TO_WHOLE.items():
    lanewise(FAMILY, f"float_to_int_{mode}", f"__float2int_{mode}(v)", of(WIDE.astype("f8")).clip(-(2**31), 2**31 - 1)
             .astype("i4"), [WIDE])  # fmt: skip
    lanewise(FAMILY, f"double_to_long_{mode}", f"__double2ll_{mode}(v)", of(WIDE.astype("f8") * 7.3).astype("i8"),
             [WIDE.astype("f8") * 7.3])  # fmt: skip
    lanewise(FAMILY, f"int_to_float_{mode}", f"__int2float_{mode}(v)",
             directed("f4", mode, [int(n) for n in SIGNED]), [SIGNED])  # fmt: skip
    lanewise(FAMILY, f"ulong_to_double_{mode}", f"__ull2double_{mode}(v)",
             directed("f8", mode, [int(n) for n in LONG_BITS]), [LONG_BITS])  # fmt: skip
    narrow = WIDE.astype("f8") * 1.1
    lanewise(FAMILY, f"double_to_float_{mode}", f"__double2float_{mode}(v)",
             numpy.where(narrow == 0, narrow, directed("f4", mode, [fractions.Fraction(n) for n in narrow]))
             .astype("f4"), [narrow])  # fmt: skip
lanewise(FAMILY, "long_to_float", "(float)v", directed("f4", "rn", [int(n) for n in LONG >> 20]), [LONG >> 20])
lanewise(FAMILY, "uint_to_double", "(double)v", BITS.astype("f8"), [BITS])
lanewise(FAMILY, "float_to_double", "(double)v", HARD.astype("f8"), [HARD])
lanewise(FAMILY, "clamped_to_int", "(int)v", numpy.tile(numpy.int32(CLAMPED["i4"]), COUNT // 8), [BEYOND])
lanewise(FAMILY, "clamped_to_uint", "(unsigned)v", numpy.tile(numpy.uint32(CLAMPED["u4"]), COUNT // 8), [BEYOND])
lanewise(FAMILY, "float_to_char", "(signed char)(int)v", (NEAR * 40).astype("f4").astype("i4").astype("i1"),
         [(NEAR * 40).astype("f4")])  # fmt: skip
lanewise(FAMILY, "short_to_float", "(float)v * 0.5f", (SIGNED >> 16).astype("i2").astype("f4") / 2,
         [(SIGNED >> 16).astype("i2")])  # fmt: skip
lanewise(FAMILY, "widening", "(long long)v * 3", (BITS & 255).astype("u1").view("i1").astype("i8") * 3,
         [(BITS & 255).astype("u1").view("i1")])  # fmt: skip
lanewise(FAMILY, "float_bits", "(unsigned)__float_as_int(v) ^ 0x80000000u", HARD.view("u4") ^ numpy.uint32(2**31),
         [HARD])  # fmt: skip
lanewise(FAMILY, "bits_to_float", "__int_as_float((int)((v & 0x807fffffu) | 0x3f000000u))",
         ((BITS & 0x807FFFFF) | 0x3F000000).astype("u4").view("f4"), [BITS])  # fmt: skip
lanewise(FAMILY, "double_halves", "__hiloint2double(__double2hiint(v), __double2loint(v) ^ 1)",
         (HARD.astype("f8").view("u8") ^ numpy.uint64(1)).view("f8"), [HARD.astype("f8")])  # fmt: skip
lanewise(FAMILY, "double_bits", "(unsigned long long)__double_as_longlong(v) >> 3", HARD.astype("f8").view("u8") >> 3,
         [HARD.astype("f8")])  # fmt: skip
lanewise(FAMILY, "to_bool", "(bool)v ? 3u : (v == w)", numpy.where(INDEX % 3, 3, 1).astype("u4"),
         [numpy.where(INDEX % 3, LARGE, 0).astype("f4"), numpy.zeros(COUNT, "f4")])  # fmt: skip
