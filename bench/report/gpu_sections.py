"""Renders the GPU sections of a machine's page: kernels, encoder, accuracy, operators."""

import re

import speed_gates

from report.comparisons import UNTOLD, is_fovea, missing, ratio, ratio_to_precision, skipped, skipped_sentence
from report.tables import ROOT, fields, number, table

CARDS = ROOT / "lab" / "cards"


def microseconds(seconds: float) -> str:
    return number(seconds * 1e6)


def share(value: float, peak: float) -> str:
    return f"{value / peak:.0%}" if peak else "-"


def cards() -> set[str]:
    """Returns all identifiers in string literals of lab/cards/, which include the names of all cards."""
    return set(re.findall(r'"(\w+)"', "".join(path.read_text() for path in sorted(CARDS.glob("*.cpp")))))


def kernels_section(result: dict) -> str:
    """Renders the bench cases of all cards that still exist, with their peers of the same run."""
    known = cards()
    text = (
        "### Kernels\n\n"
        f"These ceilings were measured in the same run: copy {number(result['copy_bytes_per_second'] * 1e-9)} GB/s, bf16 "
        f"{number(result['bf16_flops'] * 1e-12)} and e4m3 {number(result['e4m3_flops'] * 1e-12)} TFLOP/s. Each output was "
        'checked first. Times are medians, with half of the spread from the 10th to the 90th percentile. "Sustained" is one '
        "reading, of the second half of 0.15 s without pauses, when a GPU may be at its power limit. A ratio below 1 means that "
        "Fovea is slower than the best peer that gives the same result; AMBIGUOUS means by less than the spread; peers in brackets leave part of the work undone.\n\n"
    )
    rows = []
    for figure in (figure for figure in result["figures"] if figure["card"] in known):
        seconds = figure["seconds"]
        flops = figure["flops"] / seconds
        comparable_ratios = [peer["ratio"] for peer in figure["peers"] if peer["same_result"] and not peer["wrong"]]
        rows.append([
            *fields(figure, "card description"), f"{min(comparable_ratios):.2f}x" if comparable_ratios else "no peer", gate_readings(figure),
            time_with_spread(figure), microseconds(figure["sustained"]),
            f"{figure['sm_mhz']:,} MHz, {figure['watts']:.0f} W", number(flops * 1e-12),
            share(flops, figure["matrix_ceiling"]), share(figure["bytes"] / seconds, result["copy_bytes_per_second"]),
            "<br>".join(kernel_peer(peer) for peer in figure["peers"]),
        ])  # fmt: skip
    columns = "card | problem | to the best peer | its gate | microseconds | sustained | clock, power | TFLOP/s"
    columns += " | of the matrix rate | of the copy rate | peers: microseconds, ratio; ratio sustained"
    text += table(columns, rows)
    if result.get("missing"):
        text += "\nNot measured: " + "; ".join(result["missing"]) + ".\n"
    return text + speed_gates.describe(result)


def gate_readings(figure: dict) -> str:
    """Returns the reading and the limit of each gate on the ratio to a peer, and whether it passed."""
    gates = [
        f"{gate['peer']}: {gate['reading']:.2f}x of {gate['limit']:.2f}x, {'passed' if gate['passed'] else 'MISSED'}"
        for gate in figure.get("gates", [])
    ]
    return "<br>".join(gates) or "-"


def time_with_spread(entry: dict) -> str:
    """Returns the time in microseconds, with its spread if the result has one."""
    spread = f" ±{50 * entry['spread'] / entry['seconds']:.1f}%" if "spread" in entry else ""
    return microseconds(entry["seconds"]) + spread


def kernel_peer(peer: dict) -> str:
    if peer["wrong"]:
        return f"{peer['name']}: its output is wrong"
    text = (
        f"{peer['name']}: {time_with_spread(peer)}, {peer['ratio']:.2f}x{' AMBIGUOUS' if peer['ambiguous'] else ''}; "
    )
    text += f"{peer['sustained_ratio']:.2f}x"
    return text if peer["same_result"] else f"({text})"


def gpu_encoder_rows(ours: list[dict], peers: list[dict]) -> list[dict]:
    """Returns the rows of Fovea and of its peers in one form. Rates are by the GPU's own time, with pixels in its
    memory."""
    rows = [
        {"engine": "fovea", "precision": entry["precision"], "batch": entry["batch_size"],
         "rate": entry["device_images_per_second"], "copied": entry["images_per_second"]}
        for entry in ours
    ]  # fmt: skip
    return rows + [
        {"engine": entry["peer"], "precision": entry.get("precision", "bf16"),
         "batch": entry.get("batch", int(entry["case"].split()[-1])), "rate": entry["images_per_second"]}
        for entry in peers if "images_per_second" in entry
    ]  # fmt: skip


GPU_PEERS = {
    "bf16": ("transformers eager", "torch.compile max-autotune"),
    "int8": ("torchao dynamic, torch.compile max-autotune",),
    "fp8": ("torchao dynamic, torch.compile max-autotune",),
}


def gpu_bench_section(run: dict) -> str:
    entries, peers = run["ours"], run["peers"]
    encoder_rows = gpu_encoder_rows(entries, peers)
    rows = []
    for precision, batch in sorted({(row["precision"], row["batch"]) for row in encoder_rows}):
        group = [row for row in encoder_rows if (row["precision"], row["batch"]) == (precision, batch)]
        rivals = [row["rate"] for row in group if not is_fovea(row)]
        peer_rows = [row for row in encoder_rows if not is_fovea(row) and row["batch"] == batch]
        wide = [row["rate"] for row in peer_rows if row["precision"] == "bf16"]
        for row in sorted(group, key=lambda row: (not is_fovea(row), -row["rate"])):
            row["beside"] = ratio(row["rate"], rivals)
            row["beside_bf16"] = ratio(row["rate"], wide) if precision != "bf16" else ""
            rows.append(fields(row, "engine precision batch rate beside beside_bf16 copied"))
    introduction = (
        "### The encoder on the GPU\n\nbase-patch16-224. Rates by the GPU's own time, with pixels in its memory; Fovea's also with the copies from and to "
        "the host, as `fovea bench --device cuda` tells them. Peers are transformers' model with attention by torch's SDPA; compiled ones are compiled for each batch size "
        "alone, and torchao's find the scales of what layers read while they run. A ratio below 1 loses; what 8 bits cost in neighbours is under Accuracy.\n\n"
    )
    columns = "engine | precision | batch | images/s"
    columns += " | to the best peer of this precision | to the best in bf16 | with copies"
    known = {(entry["peer"], entry.get("precision", "bf16")) for entry in peers}
    unmentioned = missing({entry["precision"]: None for entry in entries}, GPU_PEERS, known)
    return introduction + table(columns, rows) + skipped_sentence(skipped(peers, "peer case") + unmentioned)


def torch_gemm_section(entries: list[dict]) -> str:
    rows = [
        fields(entry | {"time": time_with_spread(entry)}, "case peer time tflops")
        for entry in entries
        if "seconds" in entry
    ]
    introduction = "### torch's matrix products on the same GPU\n\n"
    return (
        introduction
        + table("case | peer | microseconds | TFLOP/s", rows)
        + skipped_sentence(skipped(entries, "peer case"))
    )


def mixed_precision(entry: dict) -> str:
    """Returns the precision, with the number of layers that stay in bf16."""
    layers = entry.get("bf16_layers", 0)
    return entry["precision"] + (f", first {layers} layers bf16" if layers else "")


def accuracy_rows(result: dict) -> list[list[str]]:
    names = "model engine precision calibration cosine_mean:.5f cosine_percentile_1:.5f cosine_min:.5f recall_at_10:.4f"
    return [
        fields(entry | {"precision": mixed_precision(entry), "calibration": entry["calibration"] or "-"}, names)
        for entry in own_rows(result)
    ]


def own_rows(result: dict) -> list[dict]:
    """Returns the rows of this run; rows with a commit of their own come from an earlier program."""
    return [entry for entry in result["rows"] if "commit" not in entry]


ACCURACY_COLUMNS = "model | engine | precision | calibrated on | mean | 1st percentile | minimum | recall@10"


def accuracy_section(result: dict) -> str:
    """Renders all engines and precisions, each with the kinds of photos on which it is worst."""
    corpus = result["corpus"]
    rows = [
        [*row, ", ".join(f"{kind} {cosine:.4f}" for kind, cosine in list(entry["kinds"].items())[:3])]
        for row, entry in zip(accuracy_rows(result), own_rows(result), strict=True)
    ]
    return (
        f"### Accuracy\n\nCosines to transformers in fp32 over {corpus['photos']} photos of {corpus['kinds']} kinds that are hard "
        "(`bench/hard_photos/`: pages, codes, charts, night, fog, noise, photographs gone wrong), and recall@10: of each photo's ten "
        'nearest others by fp32, the share that is also among its ten nearest here. "The other half": each half of the photos with a '
        "calibration on 32 of the other half.\n\n"
    ) + table(f"{ACCURACY_COLUMNS} | worst kinds, and their mean", rows)


def shortfalls(result: dict) -> list[str]:
    """Returns a phrase for each limit relative to torch's bf16 that a precision misses."""
    phrases = []
    for model in dict.fromkeys(entry["model"] for entry in own_rows(result)):
        entries = [entry for entry in own_rows(result) if entry["model"] == model]
        torch = [entry for entry in entries if entry["engine"].startswith("torch")]
        for entry in (entry for entry in entries if entry["engine"] == "fovea" and entry["precision"] != "fp32"):
            subject = f"{mixed_precision(entry)} of {model}"
            subject += f" calibrated on {entry['calibration']}" if entry["calibration"] else ""
            if entry["precision"] == "bf16":
                phrases += [
                    f"{subject} is farther from fp32 than torch's bf16 in the {name}"
                    for name, key in (("mean", "cosine_mean"), ("1st percentile", "cosine_percentile_1"))
                    if entry[key] < max(other[key] for other in torch)
                ]
                continue
            below = max(other["recall_at_10"] for other in torch) - entry["recall_at_10"]
            if below > {"int8": 0.005, "fp8": 0.01}[entry["precision"]]:
                phrases.append(f"recall@10 of {subject} is {below:.4f} below that of torch's bf16")
    return phrases


def gpu_end_to_end_section(entries: list[dict]) -> str:
    peers = [peer for entry in entries for peer in entry.get("peers", [])]
    best = [peer["images_per_second"] for peer in peers if "skipped" not in peer]
    names = "engine precision end_to_end beside decode_only gpu_only minimum_cosine_to_cpu:.5f"
    rows = []
    for entry in entries:
        beside = ratio_to_precision(entry["precision"], entry["end_to_end"], best, "bf16")
        rows.append(fields(entry | {"engine": "fovea embed", "beside": beside}, names))
    for peer in (peer for peer in peers if "skipped" not in peer):
        rate = peer["images_per_second"]
        row = {"engine": peer["peer"], "precision": "bf16", "end_to_end": rate, "beside": ratio(rate, best)}
        rows.append(fields(row, names))
    introduction = (
        f"### JPEGs to embeddings on the GPU\n\n{entries[0]['images']:,} photos of 500x375, "
        f"{number(entries[0]['mean_bytes'] / 1000)} KB each, in images per second.\n\n"
    )
    columns = "engine | precision | images/s | to the best peer"
    columns += " | decoding alone | GPU alone | least cosine to the CPU's"
    unmentioned = [] if peers else [("DataLoader and nvJPEG with torch.compile", UNTOLD)]
    return introduction + table(columns, rows) + skipped_sentence(skipped(peers, "peer") + unmentioned)


def operators_accepted_section(result: dict) -> str:
    """Renders the results of `python -m fovea.lab.accept`: a row per level, and one for checks of all levels."""
    headline: dict[str, float] = {}
    rows: dict[str, tuple[int, int]] = {}
    for line in result["lines"]:
        level = line.get("level", "resources, and wrong results rejected")
        passed, total = rows.get(level, (0, 0))
        rows[level] = passed + (not line["failures"]), total + 1
        if line.get("headline"):
            headline[level] = max(headline.get(level, 0.0), line["max_diff"])
    left_out = [line["level"] for line in result["left_out"]]
    shown = [
        [level, f"{passed}/{total}", f"{headline[level]:.1e}" if level in headline else "", left_out.count(level) or ""]
        for level, (passed, total) in rows.items()
    ]
    introduction = (
        f"### Attention's acceptance: `python -m fovea.lab.accept` on {result['device']}\n\n"
        '"Largest difference" is that from torch in float32 over the five main cases in fp16; at most 1e-3 is accepted, or\n'
        "what rounding to fp16 costs where this is more ([operators.md](../operators.md#acceptance-and-speed)).\n\n"
    )
    return introduction + table("level | passed | largest difference | sizes that the level does not support", shown)


def operators_attention_section(result: dict) -> str:
    """Renders the results of `python -m fovea.lab.bench_attention`, with a column per level and per torch backend."""

    def cell(entry: dict) -> str:
        return number(entry["us"]) if "us" in entry else "wrong" if "failed" in entry else "-"

    sides = {side: sorted({name for row in result["rows"] for name in row[side]}) for side in ("fovea", "torch")}
    rows = []
    for row in result["rows"]:
        *sizes, causal = row["problem"]
        cells = [cell(row[side].get(name, {})) for side, names in sides.items() for name in names]
        times = {side: {name: entry["us"] for name, entry in row[side].items() if "us" in entry} for side in sides}
        fastest = {side: min(times_by_name.values(), default=float("nan")) for side, times_by_name in times.items()}
        chosen = row.get("chosen", "")
        default = times["fovea"].get(chosen, float("nan")) if chosen else fastest["fovea"]
        flash, mma = times["torch"].get("flash", float("nan")), times["fovea"].get("mma", float("nan"))
        against = fastest["torch"] / default, fastest["torch"] / fastest["fovea"], flash / mma
        problem = f"({', '.join(map(str, sizes))}){' causal' if causal else ''}"
        rows.append([problem, *cells, chosen, *("-" if ratio != ratio else f"{ratio:.2f}x" for ratio in against)])
    overhead = "; ".join(f"`{name}` {us:.1f}" for name, us in result.get("host_us", {}).items())
    introduction = (
        f"### Attention as an operator of PyTorch, {result['rows'][0]['dtype']}\n\n`python -m fovea.lab.bench_attention` measures microseconds "
        "in a CUDA graph, after each result was checked; ratios above 1 mean that Fovea is faster.\n\n"
    )
    columns = ["batch, heads, length, dimension", *sides["fovea"], *(f"torch {name}" for name in sides["torch"])]
    columns.append("default | default to torch's best | best to best | mma to flash")
    overhead_text = f"\nMicroseconds of the calling thread per call: {overhead}.\n" if overhead else ""
    return introduction + table(" | ".join(columns), rows) + overhead_text
