"""Kernels of binary32 arithmetic with a direction of rounding, to the last bit."""

import fractions

import numpy

from .table import COUNT, HARD, OTHER_HARD, POSITIVE, directed, exact_of, lanewise, towards

A, B = exact_of(HARD), exact_of(OTHER_HARD)
THIRD = exact_of(numpy.full(COUNT, 1 / 3, "f4"))[0]
# Roots: of numbers most of which have none that is a float.
SQUARES = POSITIVE * numpy.float32(1.1)


def root(mode, number, guess):
    """The root of a fraction, rounded towards zero, upwards or downwards."""

    def compare(value):
        difference = fractions.Fraction(float(value)) ** 2 - number
        return (difference > 0) - (difference < 0)

    return towards("f4", compare, mode, guess)


for mode in ("rn", "rz", "ru", "rd"):
    pair = [HARD, OTHER_HARD]
    lanewise("rounding", f"fadd_{mode}", f"__fadd_{mode}(v, w)",
             directed("f4", mode, [a + b for a, b in zip(A, B)]), pair)  # fmt: skip
    lanewise("rounding", f"fsub_{mode}", f"__fsub_{mode}(v, w)",
             directed("f4", mode, [a - b for a, b in zip(A, B)]), pair)  # fmt: skip
    lanewise("rounding", f"fmul_{mode}", f"__fmul_{mode}(v, w)",
             numpy.where(HARD == 0, HARD * OTHER_HARD, directed("f4", mode, [a * b for a, b in zip(A, B)])), pair)  # fmt: skip
    lanewise("rounding", f"fmaf_{mode}", f"__fmaf_{mode}(v, w, 1.f / 3.f)",
             directed("f4", mode, [a * b + THIRD for a, b in zip(A, B)]), pair)  # fmt: skip
    lanewise("rounding", f"fdiv_{mode}", f"__fdiv_{mode}(w, v)",
             directed("f4", mode, [b / a for a, b in zip(exact_of(SQUARES), B)]), [SQUARES, OTHER_HARD])  # fmt: skip
    lanewise("rounding", f"frcp_{mode}", f"__frcp_{mode}(v)",
             directed("f4", mode, [1 / a for a in exact_of(SQUARES)]), [SQUARES])  # fmt: skip
for mode in ("rz", "ru", "rd"):
    wanted = [root(mode, a, float(a) ** 0.5) for a in exact_of(SQUARES)]
    lanewise("rounding", f"fsqrt_{mode}", f"__fsqrt_{mode}(v)", numpy.array(wanted, "f4"), [SQUARES])
lanewise("rounding", "fsqrt_rn", "__fsqrt_rn(v)", numpy.sqrt(SQUARES), [SQUARES])
lanewise("rounding", "frsqrt_rn", "__frsqrt_rn(v)", (1 / numpy.sqrt(SQUARES.astype("f8"))).astype("f4"), [SQUARES])
