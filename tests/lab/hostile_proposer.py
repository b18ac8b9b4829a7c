"""Proposers that misbehave: hostile_proposer.py HOW...: each proposal in turn does HOW, then it stops."""

import json
import sys
import time

hows = sys.argv[1:]
for line in sys.stdin:
    message = json.loads(line)
    # What it did before it was ended is in the history, so that each misdeed happens once.
    number = message["number"] - 1
    how = hows[number] if number < len(hows) else "stop"
    if message["kind"] == "task":
        sources, kernels = message["sources"], message["kernels"]
        assert message["history"][0]["number"] == 0 and message["limits"]["registers_per_thread"] == 255
    parameters = kernels[0]["parameters"]
    name = next(iter(parameters))
    path = next(path for path in sources if path.endswith(".cuh"))
    if how == "hang":
        time.sleep(3600)
    elif how == "end":
        sys.exit("I have had enough")
    elif how == "garbage":
        sys.stdout.buffer.write(b"\x1b[31m<garbage>\xff\n")
        sys.stdout.buffer.flush()
    elif how == "flood":
        print("y\n" * 5000, flush=True)
    elif how == "nested":
        print(json.dumps({"parameters": {name: "@"}}).replace('"@"', "[" * 10**6 + "]" * 10**6), flush=True)
    elif how == "far":
        print(json.dumps({"parameters": {name: 10**9}}), flush=True)
    elif how == "escape":
        print(json.dumps({"files": {"../../../tmp/evil.cuh": ""}}), flush=True)
    elif how == "broken":
        print(json.dumps({"files": {path: "this is no CUDA"}, "reason": "why not"}), flush=True)
    elif how == "endless":
        small = "kernels/attention/mma_small.cuh"
        begin = sources[small].index("{", sources[small].index("void mma_small(")) + 1
        endless = sources[small][:begin] + "\n  while (clock64() != 0) {\n  }\n" + sources[small][begin:]
        print(json.dumps({"files": {small: endless}, "reason": "it never ends"}), flush=True)
    elif how == "honest":
        changed = {}
        for name, values in kernels[0]["parameters"].items():
            smaller = [value for value in values if value < kernels[0]["values"][name]]
            changed = changed or ({name: max(smaller)} if smaller else {})
        print(json.dumps({"parameters": changed, "reason": "one step down"}), flush=True)
    elif how == "again":
        print(json.dumps({"parameters": {}}), flush=True)
    else:
        print(json.dumps({"stop": True, "reason": "that was all"}), flush=True)
