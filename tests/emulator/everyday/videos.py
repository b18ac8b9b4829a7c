"""Kernels of SIMD intrinsics: two or four small numbers in a register, and those for dynamic programming."""

import numpy

from .table import BITS, INDEX, OTHER_BITS, lanewise

FAMILY = "videos"


def lanes(array, size, signed):
    return array.view(f"{'i' if signed else 'u'}{size}").astype("i8")


def video(name, size, of, signed=False, inputs=2, saturate=False, expression=None):
    """Enters a kernel of an intrinsic that works on numbers of `size` bytes each."""
    given = [BITS, OTHER_BITS][:inputs]
    result = of(*(lanes(x, size, signed) for x in given))
    bits = 8 * size
    if saturate:
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        result = result.clip(low, high)
    packed = (result % 2**bits).astype(f"u{size}").view("u4")
    lanewise(FAMILY, name, expression or f"__{name}({', '.join('vw'[:inputs])})", packed, given)


video("vadd4", 1, lambda a, b: a + b)
video("vadd2", 2, lambda a, b: a + b)
video("vaddss2", 2, lambda a, b: a + b, signed=True, saturate=True)
video("vaddus4", 1, lambda a, b: a + b, saturate=True)
video("vaddss4", 1, lambda a, b: a + b, signed=True, saturate=True)
video("vsub4", 1, lambda a, b: a - b)
video("vsub2", 2, lambda a, b: a - b)
video("vsubus4", 1, lambda a, b: a - b, saturate=True)
video("vsubss2", 2, lambda a, b: a - b, signed=True, saturate=True)
video("vmaxs2", 2, numpy.maximum, signed=True)
video("vmaxu4", 1, numpy.maximum)
video("vmaxs4", 1, numpy.maximum, signed=True)
video("vmins4", 1, numpy.minimum, signed=True)
video("vminu2", 2, numpy.minimum)
video("vabs4", 1, abs, signed=True, inputs=1)
video("vabsdiffu4", 1, lambda a, b: abs(a - b))
video("vabsdiffs2", 2, lambda a, b: abs(a - b), signed=True)
video("vneg2", 2, lambda a: -a, signed=True, inputs=1)
video("vavgu4", 1, lambda a, b: a + b + 1 >> 1)
video("vavgs2", 2, lambda a, b: a + b + (a + b >= 0) >> 1, signed=True)
video("vhaddu4", 1, lambda a, b: a + b >> 1)
video("vcmpeq4", 1, lambda a, b: -(a == b).astype("i8"), inputs=2)
video("vcmpgtu4", 1, lambda a, b: -(a > b).astype("i8"))
video("vcmplts2", 2, lambda a, b: -(a < b).astype("i8"), signed=True)
video("vsetltu2", 2, lambda a, b: (a < b).astype("i8"))
video("vseteq4", 1, lambda a, b: (a == b).astype("i8"))
for name, size, signed in (("vsadu4", 1, False), ("vsads4", 1, True), ("vsadu2", 2, False)):
    a, b = (lanes(x, size, signed).reshape(-1, 4 // size) for x in (BITS, OTHER_BITS))
    lanewise(FAMILY, name, f"__{name}(v, w)", abs(a - b).sum(1).astype("u4"), [BITS, OTHER_BITS])

SIGNED, OTHER_SIGNED = (x.view("i4") >> 2 for x in (BITS, OTHER_BITS))
THIRD = (INDEX.astype("i4") - 30) * 9999999
lanewise(FAMILY, "viaddmax", "__viaddmax_s32(v, w, u)", numpy.maximum(SIGNED + OTHER_SIGNED, THIRD),
         [SIGNED, OTHER_SIGNED, THIRD])  # fmt: skip
lanewise(FAMILY, "vimax3", "__vimax3_s32(v, w, u)", numpy.maximum(numpy.maximum(SIGNED, OTHER_SIGNED), THIRD),
         [SIGNED, OTHER_SIGNED, THIRD])  # fmt: skip
lanewise(FAMILY, "viaddmin_relu", "__viaddmin_s32_relu(v, w, u)",
         numpy.minimum(SIGNED + OTHER_SIGNED, THIRD).clip(0, None), [SIGNED, OTHER_SIGNED, THIRD])  # fmt: skip
lanewise(FAMILY, "vimin3_u16", "__vimin3_u16x2(v, w, u)",
         numpy.minimum(numpy.minimum(BITS.view("u2"), OTHER_BITS.view("u2")), (BITS ^ INDEX).view("u2")).view("u4"),
         [BITS, OTHER_BITS, BITS ^ INDEX])  # fmt: skip
lanewise(FAMILY, "vibmax", "bool above; int r = __vibmax_s32(v, w, &above); y[i] = r ^ (int)above;",
         numpy.maximum(SIGNED, OTHER_SIGNED) ^ (SIGNED >= OTHER_SIGNED), [SIGNED, OTHER_SIGNED])  # fmt: skip
