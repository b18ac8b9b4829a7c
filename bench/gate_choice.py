"""Prints, as JSON, which kernel Fovea's attention chooses on this GPU for the given problem, and the warnings it gave
during several runs in this process.

    python3 bench/gate_choice.py BATCH HEADS LENGTH WIDTH

bench/run_gpu.py calls this with and without a record of gates (FOVEA_GATE_RECORD)."""

import json
import sys
import warnings

RUNS = 5


def main() -> None:
    import fovea.ops
    import torch
    from fovea import _kernels

    sizes = [int(argument) for argument in sys.argv[1:]]
    q, k, v = (torch.randn(sizes, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    with warnings.catch_warnings(record=True) as caught, torch.inference_mode():
        warnings.simplefilter("always")
        for _ in range(RUNS):
            fovea.ops.attention(q, k, v)
        torch.cuda.synchronize()
        choice = _kernels.choose(q, k)
    notices = [str(warning.message) for warning in caught]
    print(json.dumps({"level": choice.level, "kernel": choice.kernel, "runs": RUNS, "notices": notices}))


if __name__ == "__main__":
    main()
