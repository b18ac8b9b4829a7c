#!/usr/bin/env python3
"""A proposer for `fovea kernel evolve`: climbs one tuning parameter at a time, from a poor start too.

    fovea kernel evolve attention --level wmma --start '{"ctas_per_sm": 1, "warps": 1}' --ledger climb.jsonl \
        --proposer python3 examples/proposer.py

Each line of the standard input asks for one proposal, each line of the standard output is one. Put a language model,
a search or a table in place of `proposals`: the task also holds the sources, the limits and what the profile found.
"""

import json
import sys


def proposals(kernel, candidates):
    """Changes of the best candidate, one parameter each: first to the value beside its own, then to any."""
    best = max((c for c in candidates if c["valid"]), key=lambda c: c["speed_up"] or 0, default=candidates[0])
    tried = [c["parameters"] for c in candidates]
    for reach in range(1, max(map(len, kernel["parameters"].values()), default=1)):
        for name, values in kernel["parameters"].items():
            current = values.index(best["parameters"][name]) if best["parameters"][name] in values else 0
            for place in (current + reach, current - reach):
                if 0 <= place < len(values) and best["parameters"] | {name: values[place]} not in tried:
                    yield {
                        "parent": best["number"],
                        "parameters": {name: values[place]},
                        "reason": f"{name} from {values[current]} to {values[place]}",
                    }


candidates, kernel = [], {}
for line in sys.stdin:
    message = json.loads(line)
    if message["kind"] == "task":  # the first line; after a restart it has all candidates so far
        candidates = message["history"]
        kernel = next(k for k in message["kernels"] if k["kernel"] == candidates[0]["kernel"])
    else:  # "result": what became of the last proposal
        candidates.append(message["candidate"])
    answer = next(proposals(kernel, candidates), {"stop": True, "reason": "nothing is left to try"})
    print(json.dumps(answer), flush=True)
