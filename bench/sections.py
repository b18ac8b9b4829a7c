"""The sections of docs/performance.md: what one run measured, as tables. A figure of ours has its ratio to the best peer of the same type beside it, whether
it wins or loses, and a peer that is missing has its reason."""

import pathlib
import re

import laboratory
import speed_gates
from laboratory import number, table

CARDS = pathlib.Path(__file__).resolve().parent.parent / "lab" / "cards"


def is_fovea(entry: dict) -> bool:
    return entry["engine"].startswith("fovea")


def ratio(ours: float, rivals) -> str:
    """Beside the best of them; below 1 it loses."""
    best = max(rivals, default=None)
    return f"{ours / best:.2f}x" if best else "no peer"


def ratio_in(precision: str, ours: float, rivals: list[float], theirs: str) -> str:
    """The same where all rivals are in one precision: beside those of another nothing is won, and it says which that is."""
    return ratio(ours, rivals) if precision == theirs or not rivals else f"no peer ({ratio(ours, rivals)} those in {theirs})"


def left_out(reasons) -> str:
    """Those without a figure, each with the reason: {who: why}. One reason of many is told once."""
    by_reason: dict = {}
    for who, why in reasons:
        by_reason.setdefault(why, []).append(who)
    told = "; ".join(f"{', '.join(dict.fromkeys(who))}: {why}" for why, who in by_reason.items())
    return f"\nNot measured: {laboratory.foreign(told)}.\n" if told else ""


# What bench/peers_cpu.py measures; a run that says nothing of one of them is an old one.
CPU_PEERS = ("transformers eager", "torch.compile", "torch.compile freezing", "onnxruntime", "OpenVINO latency", "OpenVINO latency static",
             "OpenVINO throughput", "OpenVINO throughput static")
UNTOLD = "the run has neither a figure nor a reason"


def encoder_section(entries: list[dict]) -> str:
    """Rows by precision and batch size; Fovea first, then its peers from fast to slow. Many requests at once are compared with
    the best that a peer does in any form, one at a time with one at a time."""
    measured = [entry for entry in entries if "skipped" not in entry]
    groups: dict = {}
    for entry in measured:
        groups.setdefault((entry["precision"], entry["batch"], entry.get("requests", 1) > 1), []).append(entry)
    rows = []
    for (precision, batch, many), group in sorted(groups.items()):
        rivals = [e for e in group + (groups.get((precision, batch, False), []) if many else []) if not is_fovea(e)]
        for entry in sorted(group, key=lambda e: (not is_fovea(e), -e["images_per_second"])):
            rows.append([entry["engine"], precision, str(batch), str(entry.get("requests", 1)), number(entry["images_per_second"]),
                         ratio(entry["images_per_second"], [e["images_per_second"] for e in rivals])])
    reasons = [(f"{entry['engine']} {entry['precision']}", entry["skipped"]) for entry in entries if "skipped" in entry]
    told = {(entry["engine"], entry["precision"]) for entry in entries}
    reasons += [(f"{peer} {precision}", UNTOLD) for precision in dict.fromkeys(entry["precision"] for entry in measured)
                for peer in CPU_PEERS if (peer, precision) not in told]
    return (
        "### The encoder alone\n\nbase-patch16-224, no decoding. torch.compile and OpenVINO \"static\" are compiled for each batch size alone; OpenVINO "
        "without that word and onnxruntime have one model for all of them. A ratio below 1 loses to the best peer of the same precision.\n\n"
    ) + table(["engine", "precision", "batch", "batches at once", "images/s", "to the best peer"], rows) + left_out(reasons)


def cpu_times_section(times: dict) -> str:
    """A row for each precision and engine, and what share of the ceilings it reaches."""
    work, rates = times["work"], times["ceilings"]["matrix_gigaops"]
    copied = times["ceilings"]["copy_gigabytes"] * 1e9
    images = times["rows"][0]["batch"]
    parts = ("products", "attention", "norms", "pooling head", "between them")
    rows = []
    for entry in times["rows"]:
        precision, milliseconds = entry["precision"], entry["milliseconds"]
        # Beside 8-bit products the output projection and attention are in bf16, or fp32 where that is missing.
        wide = "fp32" if precision == "fp32" or "bf16" not in rates else "bf16"
        least = work["other_products"] / rates[precision] + (work["out"] / rates[wide])
        attention = work["attention"] / rates[wide]
        # Norms read fp32 and write what products take; the last one writes fp32.
        size = {"fp32": 4, "bf16": 2, "int8": 1}[precision]
        normed = work["normed"] * (4 + size) / copied
        own = precision != "int8" or is_fovea(entry)  # another engine's 8 bits are elsewhere
        rows.append([
            entry["engine"], precision, *(number(milliseconds[part]) if part in milliseconds else "" for part in parts),
            number(sum(milliseconds.values())),
            *(f"{share:.0%}" if own else "" for share in (
                least * 1e-6 / milliseconds["products"], attention * 1e-6 / milliseconds["attention"],
                normed * 1e3 / milliseconds["norms"])),
        ])
    listed = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    return (
        f"### Where the time of a forward pass goes, {images} images\n\n"
        f"In milliseconds, one batch at a time. GELU is part of the products. OpenVINO's pooling head is among its layers. At most, "
        f"{times['threads']} threads make so many thousand million operations a second with operands in the nearest cache: "
        f"{listed}; copies read and write {times['ceilings']['copy_gigabytes']:.0f} GB a second. The last columns are shares of these; "
        "norms can exceed theirs, for they find their rows in caches.\n\n"
    ) + table(["engine", "precision", *parts, "sum", "products, of the ceiling", "attention", "norms, of copies"], rows)


def image_section(entries: list[dict]) -> str:
    text = "### Images, one core\n\n"
    pairs: dict = {}
    for entry in entries:
        pairs.setdefault((entry["images"], entry["operation"]), {})[entry["engine"]] = entry["images_per_second"]
    rows = [
        [images, operation, number(engines["fovea"]), number(engines["pillow"]), f"{engines['fovea'] / engines['pillow']:.2f}x"]
        for (images, operation), engines in pairs.items()
    ]
    return text + table(["images", "operation", "Fovea, images/s", "Pillow, images/s", "ratio"], rows)


def end_to_end_section(entries: list[dict]) -> str:
    return "### End to end\n\nJPEGs of 500x375 from disk to embeddings, in images per second.\n\n" + table(
        ["precision", "decoding alone", "computing alone", "`fovea embed`", "share of the slower stage"],
        [[entry["precision"], number(entry["decode_only"]), number(entry["compute_only"]),
          number(entry["end_to_end"]), f"{entry['share_of_slower_stage']:.1%}"] for entry in entries],
    )


def cold_start_section(entries: list[dict]) -> str:
    return "### Cold start\n\nA new process embeds one photo, with the weights in the page cache.\n\n" + table(
        ["precision", "process, seconds", "one image's compute, seconds", "beyond compute, seconds"],
        [[entry["precision"], number(entry["process_seconds"]), number(entry["one_image_seconds"]),
          number(entry["beyond_compute_seconds"])] for entry in entries],
    )


def memory_section(entries: list[dict]) -> str:
    rows = [
        [entry["model"], entry["precision"], f"{int(images):,}", number(peak)]
        for entry in entries
        for images, peak in entry["peak_mib"].items()
    ]
    return "### Peak memory\n\nThe largest resident memory of `fovea embed --synthetic N --batch-size 32`.\n\n" + table(
        ["model", "precision", "images", "peak MiB"], rows
    )


def robustness_section(entry: dict) -> str:
    kill, damage = entry["kill"], entry["damage"]
    word = {True: "yes", False: "NO"}
    return "### Killed, damaged, and nothing lost\n\n" + table(
        ["what", "figure"],
        [
            ["images in the job", f"{entry['images']:,}"],
            ["times killed with SIGKILL and resumed", str(kill["kills"])],
            ["output byte-identical to an uninterrupted run", word[kill["identical"]]],
            ["damaged inputs in another run", str(damage["damaged"])],
            ["its exit code", str(damage["exit_code"])],
            ["each damaged input listed once", word[damage["listed_once"]]],
            ["every other row right", f"{word[damage['rows_right']]} (least cosine {damage['least_cosine']:.7f})"],
        ],
    )


def microseconds(seconds: float) -> str:
    return number(seconds * 1e6)


def share(value: float, of: float) -> str:
    return f"{value / of:.0%}" if of else "-"


def cards() -> set[str]:
    """All names that lab/cards/ writes down, among them those of every card."""
    return set(re.findall(r'"(\w+)"', "".join(path.read_text() for path in sorted(CARDS.glob("*.cpp")))))


def kernels_section(result: dict) -> str:
    """The bench cases of every card that there still is, beside their peers of the same run."""
    known = cards()
    text = (
        "### Kernels\n\n"
        f"These ceilings were measured in the same run: copy {number(result['copy_bytes_per_second'] * 1e-9)} GB/s, bf16 "
        f"{number(result['bf16_flops'] * 1e-12)} and e4m3 {number(result['e4m3_flops'] * 1e-12)} TFLOP/s. Each output was "
        "checked first. Times are medians, with half of the spread from the 10th to the 90th percentile. \"Sustained\" is one "
        "reading, of the second half of 0.15 s without pauses, when a GPU may be at its power limit. A ratio below 1 means that "
        "Fovea is slower than the best peer that gives the same result; AMBIGUOUS means by less than the spread; peers in brackets leave part of the work undone.\n\n"
    )
    rows = []
    for figure in (figure for figure in result["figures"] if figure["card"] in known):
        seconds = figure["seconds"]
        flops = figure["flops"] / seconds
        whole = [peer["ratio"] for peer in figure["peers"] if peer["same_result"] and not peer["wrong"]]
        rows.append([
            figure["card"], figure["description"], f"{min(whole):.2f}x" if whole else "no peer", gates_of(figure), with_spread(figure), microseconds(figure["sustained"]),
            f"{figure['sm_mhz']:,} MHz, {figure['watts']:.0f} W", number(flops * 1e-12),
            share(flops, figure["matrix_ceiling"]),
            share(figure["bytes"] / seconds, result["copy_bytes_per_second"]),
            "<br>".join(kernel_peer(peer) for peer in figure["peers"]),
        ])
    text += table(
        ["card", "problem", "to the best peer", "its gate", "microseconds", "sustained", "clock, power", "TFLOP/s", "of the matrix rate",
         "of the copy rate", "peers: microseconds, ratio; ratio sustained"], rows
    )
    if result.get("missing"):
        text += "\nNot measured: " + "; ".join(result["missing"]) + ".\n"
    return text + speed_gates.told(result)


def gates_of(figure: dict) -> str:
    """What is asked of the ratio to a peer, and whether it was reached."""
    return "<br>".join(f"{gate['peer']}: {gate['reading']:.2f}x of {gate['limit']:.2f}x, {'passed' if gate['passed'] else 'MISSED'}"
                       for gate in figure.get("gates", [])) or "-"


def with_spread(entry: dict) -> str:
    """The time with its spread, when the result has one."""
    spread = f" ±{50 * entry['spread'] / entry['seconds']:.1f}%" if "spread" in entry else ""
    return microseconds(entry["seconds"]) + spread


def kernel_peer(peer: dict) -> str:
    if peer["wrong"]:
        return f"{peer['name']}: its output is wrong"
    text = f"{peer['name']}: {with_spread(peer)}, {peer['ratio']:.2f}x{' AMBIGUOUS' if peer['ambiguous'] else ''}; "
    text += f"{peer['sustained_ratio']:.2f}x"
    return text if peer["same_result"] else f"({text})"


def gpu_encoder_rows(ours: list[dict], peers: list[dict]) -> list[dict]:
    """Fovea's rows and those of its peers in one form; the rate is by the GPU's own time, with pixels in its memory."""
    rows = [{"engine": "fovea", "precision": entry["precision"], "batch": entry["batch_size"], "rate": entry["device_images_per_second"],
             "copied": entry["images_per_second"]} for entry in ours]
    return rows + [{"engine": entry["peer"], "precision": entry.get("precision", "bf16"), "batch": entry.get("batch", int(entry["case"].split()[-1])),
                    "rate": entry["images_per_second"]} for entry in peers if "images_per_second" in entry]


GPU_PEERS = {"bf16": ("transformers eager", "torch.compile max-autotune"), "int8": ("torchao dynamic, torch.compile max-autotune",),
             "fp8": ("torchao dynamic, torch.compile max-autotune",)}


def gpu_bench_section(run: dict) -> str:
    entries, peers = run["ours"], run["peers"]
    found = gpu_encoder_rows(entries, peers)
    rows = []
    for precision, batch in sorted({(row["precision"], row["batch"]) for row in found}):
        group = [row for row in found if (row["precision"], row["batch"]) == (precision, batch)]
        rivals = [row["rate"] for row in group if not is_fovea(row)]
        wide = [row["rate"] for row in found if not is_fovea(row) and (row["precision"], row["batch"]) == ("bf16", batch)]
        for row in sorted(group, key=lambda row: (not is_fovea(row), -row["rate"])):
            rows.append([row["engine"], precision, str(batch), number(row["rate"]), ratio(row["rate"], rivals),
                         ratio(row["rate"], wide) if precision != "bf16" else "", number(row["copied"]) if "copied" in row else ""])
    reasons = [(f"{entry['peer']} {entry['case']}", entry["skipped"]) for entry in peers if "skipped" in entry]
    told = {(entry["peer"], entry.get("precision", "bf16")) for entry in peers}
    reasons += [(f"{peer} {precision}", UNTOLD) for precision in dict.fromkeys(entry["precision"] for entry in entries)
                for peer in GPU_PEERS.get(precision, ()) if (peer, precision) not in told]
    return (
        "### The encoder on the GPU\n\nbase-patch16-224. Rates by the GPU's own time, with pixels in its memory; Fovea's also with the copies from and to "
        "the host, as `fovea bench --device cuda` tells them. Peers are transformers' model with attention by torch's SDPA; compiled ones are compiled for each batch size "
        "alone, and torchao's find the scales of what layers read while they run. A ratio below 1 loses; what 8 bits cost in neighbours is under Accuracy.\n\n"
    ) + table(["engine", "precision", "batch", "images/s", "to the best peer of this precision", "to the best in bf16", "with copies"], rows) + left_out(reasons)


def torch_gemm_section(entries: list[dict]) -> str:
    rows = [[entry["case"], entry["peer"], with_spread(entry), number(entry["tflops"])] for entry in entries if "seconds" in entry]
    return "### torch's matrix products on the same GPU\n\n" + table(["case", "peer", "microseconds", "TFLOP/s"], rows) + left_out(
        (f"{entry['peer']} {entry['case']}", entry["skipped"]) for entry in entries if "skipped" in entry)


def mixed_precision(entry: dict) -> str:
    """The precision, and what is left out of it."""
    layers = entry.get("bf16_layers", 0)
    return entry["precision"] + (f", first {layers} layers bf16" if layers else "")


def accuracy_rows(result: dict) -> list[list[str]]:
    return [
        [entry["model"], entry["engine"], mixed_precision(entry), entry["calibration"] or "-", f"{entry['cosine_mean']:.5f}",
         f"{entry['cosine_percentile_1']:.5f}", f"{entry['cosine_min']:.5f}", f"{entry['recall_at_10']:.4f}"]
        for entry in of_the_run(result)
    ]


def of_the_run(result: dict) -> list[dict]:
    """Without rows that an earlier program had left in the file."""
    return [entry for entry in result["rows"] if "commit" not in entry]


ACCURACY_COLUMNS = ["model", "engine", "precision", "calibrated on", "mean", "1st percentile", "minimum", "recall@10"]


def accuracy_section(result: dict) -> str:
    """All engines and precisions, each with the kinds of photos on which it is worst."""
    corpus = result["corpus"]
    rows = [
        [*row, ", ".join(f"{kind} {cosine:.4f}" for kind, cosine in list(entry["kinds"].items())[:3])]
        for row, entry in zip(accuracy_rows(result), of_the_run(result), strict=True)
    ]
    return (
        f"### Accuracy\n\nCosines to transformers in fp32 over {corpus['photos']} photos of {corpus['kinds']} kinds that are hard "
        "(`bench/hard_photos/`: pages, codes, charts, night, fog, noise, photographs gone wrong), and recall@10: of each photo's ten "
        "nearest others by fp32, the share that is also among its ten nearest here. \"The other half\": each half of the photos with a "
        "calibration on 32 of the other half.\n\n"
    ) + table([*ACCURACY_COLUMNS, "worst kinds, and their mean"], rows)


def shortfalls(result: dict) -> list[str]:
    """What is asked of each precision beside torch's bf16 and not reached."""
    found = []
    for model in dict.fromkeys(entry["model"] for entry in of_the_run(result)):
        entries = [entry for entry in of_the_run(result) if entry["model"] == model]
        torch = [entry for entry in entries if entry["engine"].startswith("torch")]
        for entry in (entry for entry in entries if entry["engine"] == "fovea" and entry["precision"] != "fp32"):
            told = f"{mixed_precision(entry)} of {model}" + (f" calibrated on {entry['calibration']}" if entry["calibration"] else "")
            if entry["precision"] == "bf16":
                found += [f"{told} is farther from fp32 than torch's bf16 in the {name}" for name, key in
                          (("mean", "cosine_mean"), ("1st percentile", "cosine_percentile_1"))
                          if entry[key] < max(other[key] for other in torch)]
                continue
            below = max(other["recall_at_10"] for other in torch) - entry["recall_at_10"]
            if below > {"int8": 0.005, "fp8": 0.01}[entry["precision"]]:
                found.append(f"recall@10 of {told} is {below:.4f} below that of torch's bf16")
    return found


def gpu_end_to_end_section(entries: list[dict]) -> str:
    peers = [peer for entry in entries for peer in entry.get("peers", [])]
    best = [peer["images_per_second"] for peer in peers if "skipped" not in peer]
    rows = [["fovea embed", entry["precision"], number(entry["end_to_end"]), ratio_in(entry["precision"], entry["end_to_end"], best, "bf16"), number(entry["decode_only"]),
             number(entry["gpu_only"]), f"{entry['minimum_cosine_to_cpu']:.5f}"] for entry in entries]
    rows += [[peer["peer"], "bf16", number(peer["images_per_second"]), ratio(peer["images_per_second"], best), "", "", ""]
             for peer in peers if "skipped" not in peer]
    reasons = [(peer["peer"], peer["skipped"]) for peer in peers if "skipped" in peer]
    reasons += [] if peers else [("DataLoader and nvJPEG with torch.compile", UNTOLD)]
    return (
        f"### JPEGs to embeddings on the GPU\n\n{entries[0]['images']:,} photos of 500x375, {number(entries[0]['mean_bytes'] / 1000)} KB each, in images per second.\n\n"
    ) + table(["engine", "precision", "images/s", "to the best peer", "decoding alone", "GPU alone", "least cosine to the CPU's"], rows) + left_out(reasons)


def operators_accepted_section(result: dict) -> str:
    """`python -m fovea.accept`: what passed, in a row per level and one for checks of all levels."""
    headline, rows = {}, {}
    for line in result["lines"]:
        level = line.get("level", "resources, and wrong results rejected")
        passed, total = rows.get(level, (0, 0))
        rows[level] = passed + (not line["failures"]), total + 1
        if line.get("headline"):
            headline[level] = max(headline.get(level, 0.0), line["max_diff"])
    left_out = [line["level"] for line in result["left_out"]]
    return (
        f"### Attention's acceptance: `python -m fovea.accept` on {result['device']}\n\n"
        "\"Largest difference\" is that from torch in float32 over the five main cases in fp16; at most 1e-3 is accepted, or\n"
        "what rounding to fp16 costs where this is more ([operators.md](operators.md#acceptance-and-speed)).\n\n"
    ) + table(
        ["level", "passed", "largest difference", "sizes that the level does not support"],
        [[level, f"{passed}/{total}", f"{headline[level]:.1e}" if level in headline else "", str(left_out.count(level) or "")]
         for level, (passed, total) in rows.items()],
    )


def operators_attention_section(result: dict) -> str:
    """`python -m fovea.bench_attention`: its rows as a table, levels and torch's backends side by side."""
    def cell(entry: dict) -> str:
        return number(entry["us"]) if "us" in entry else "wrong" if "failed" in entry else "-"

    sides = {side: sorted({name for row in result["rows"] for name in row[side]}) for side in ("fovea", "torch")}
    rows = []
    for row in result["rows"]:
        *sizes, causal = row["problem"]
        cells = [cell(row[side].get(name, {})) for side, names in sides.items() for name in names]
        times = {side: {name: entry["us"] for name, entry in row[side].items() if "us" in entry} for side in sides}
        least = {side: min(found.values(), default=float("nan")) for side, found in times.items()}
        chosen = row.get("chosen", "")
        default = times["fovea"].get(chosen, float("nan")) if chosen else least["fovea"]
        against = [least["torch"] / default, least["torch"] / least["fovea"],
                   times["torch"].get("flash", float("nan")) / times["fovea"].get("mma", float("nan"))]
        problem = f"({', '.join(map(str, sizes))}){' causal' if causal else ''}"
        rows.append([problem, *cells, chosen, *("-" if ratio != ratio else f"{ratio:.2f}x" for ratio in against)])
    overhead = "; ".join(f"`{name}` {us:.1f}" for name, us in result.get("host_us", {}).items())
    return (
        f"### Attention as an operator of PyTorch, {result['rows'][0]['dtype']}\n\n`python -m fovea.bench_attention` measures microseconds "
        "in a CUDA graph, after each result was checked; ratios above 1 mean that Fovea is faster.\n\n"
    ) + table(
        ["batch, heads, length, dimension", *sides["fovea"], *(f"torch {name}" for name in sides["torch"]), "default",
         "default to torch's best", "best to best", "mma to flash"],
        rows,
    ) + (f"\nMicroseconds of the calling thread per call: {overhead}.\n" if overhead else "")


def python_section(entries: list[dict]) -> str:
    return (
        "### `Encoder.embed` in Python beside `fovea embed`\n\nImages per second of long runs, of one call on a loaded model, and as the program "
        "itself reports for as many photos, including the load of the model.\n\n"
    ) + table(
        ["device", "Python", "`fovea embed`", "ratio", "photos", "one call", "`fovea embed` reports", "same values"],
        [[entry["device"], number(entry["python_images_per_second"]), number(entry["cli_images_per_second"]),
          f"{entry['python_to_cli']:.2f}", f"{entry['images']:,}", number(entry["call_images_per_second"]),
          number(entry["cli_reported_images_per_second"]), "yes" if entry["same_values"] else "NO"]
         for entry in entries],
    )


def text_accuracy_section(result: dict) -> str:
    """What each precision costs texts, beside transformers' bf16 on the same ones."""
    rows = [
        [name, f"{entry['mean']:.6f}", f"{entry['first_percentile']:.6f}", f"{entry['least']:.6f}", f"{entry['recall_at_10']:.4f}"]
        for name, entry in result["precisions"].items()
    ]
    return (
        f"### Texts: accuracy by precision\n\n{result['texts']:,} texts, a model of random weights ({result['model']}), on "
        f"{'the GPU' if result['device'] == 'cuda' else 'the CPU'}. Cosines to, and the 10 nearest texts shared with, transformers in fp32.\n\n"
    ) + table(["engine", "mean", "1st percentile", "least", "recall@10"], rows)


def search_times_section(results: list[dict]) -> str:
    """Seconds of a search in collections, each from fast to slow."""
    return "\n".join(search_times_of(result) for result in results)


def search_times_of(result: dict) -> str:
    rows = []
    digits = 5 if result.get("device") == "cuda" else 3
    for queries in sorted({entry["queries"] for entry in result["results"]}):
        group = sorted((e for e in result["results"] if e["queries"] == queries), key=lambda e: e["seconds"])
        best = min((e["seconds"] for e in group if not e["engine"].lower().startswith("fovea")), default=None)
        rows += [[str(queries), e["engine"], f"{e['seconds']:.{digits}f}", f"{best / e['seconds']:.2f}x" if best else "no peer",
                  f"{e['least_seconds']:.{digits}f}"] for e in group]
    text = (
        f"### Exact search{' on the GPU' if result.get('device') == 'cuda' else ''}, {result['rows']:,} rows\n\n"
        f"Rows of {result['dimension']} numbers in f16, the {result['k']} nearest, {result['threads']} threads. The answers to the first "
        f"{result.get('checked_queries', 16)} queries of each batch were compared with float64; peers have all rows in memory, unless it says of files. "
        "The median and the least of several turns; a ratio below 1 is slower than the best peer.\n\n"
    ) + table(["queries", "engine", "seconds", "to the best peer", "least"], rows)
    return text + left_out((skipped["engine"], skipped["why"]) for skipped in result.get("skipped", []))


def naflex_section(results: list[dict]) -> str:
    """Images of many aspect ratios beside transformers, which pads them."""
    rows, reasons = [], []
    for result in results:
        measured = [entry for entry in result["rates"] if "skipped" not in entry]
        for entry in measured:
            rivals = [e["images_per_second"] for e in measured if not is_fovea(e) and
                      (e["precision"], e["batch"]) == (entry["precision"], entry["batch"])]
            rows.append([result["device"], entry["engine"], entry["precision"], str(entry["batch"]), number(entry["images_per_second"]),
                         ratio(entry["images_per_second"], rivals), f"{entry['minimum_cosine']:.6f}"])
        reasons += [(f"{entry['engine']} {entry['precision']}", entry["skipped"]) for entry in result["rates"] if "skipped" in entry]
        if not any(entry["engine"].startswith("torch.compile") for entry in result["rates"]):
            reasons.append(("torch.compile", UNTOLD))
    return "### NaFlex: images of many aspect ratios\n\n" + table(
        ["device", "engine", "precision", "batch", "images/s", "to the best peer", "least cosine to fp32"], rows) + left_out(reasons)


def texts_section(results: list[dict]) -> str:
    """Rates of warm text towers, of all engines from strings, of those that take them also from token ids."""
    text = ""
    for result in results:
        measured = [row for row in result["rows"] if "skipped" not in row]
        rows = []
        for row in measured:
            rivals = [other["from_texts_per_second"] for other in measured if not is_fovea(other) and other["precision"] == row["precision"]
                      and (row["batch"] == "all" or other["batch"] == row["batch"])]
            rows.append([row["engine"], row["precision"], str(row["batch"]), number(row["from_texts_per_second"]),
                         ratio(row["from_texts_per_second"], rivals),
                         number(row["from_tokens_per_second"]) if "from_tokens_per_second" in row else ""])
        text += (
            f"### Texts on {'the GPU' if result['device'] == 'cuda' else 'the CPU'}\n\n{result['model']}, {result['tokens']} tokens for each text, engines warm; "
            "texts per second from strings, tokenizer included, and from token ids in the host's memory. \"all\" is one process over "
            f"{result['texts']:,} texts, without its start, beside the best batch of a peer. A ratio below 1 loses.\n\n"
        ) + table(["engine", "precision", "batch", "from texts", "to the best peer", "from tokens"], rows) + left_out(
            (f"{row['engine']} {row['precision']}", row["skipped"]) for row in result["rows"] if "skipped" in row)
    return text


def features_section(results: list[dict]) -> str:
    """Features of tokens: values beside transformers in fp32, and rates beside its own."""
    rows, reasons = [], []
    for result in results:
        model = f"{result['model']}, {result['layer']}"
        peer, dtype = result.get("transformers_figures", {}), {"bfloat16": "bf16", "float32": "fp32"}.get(result.get("transformers_dtype", ""), "")
        rivals = [result[key] for key in ("transformers_images_per_second", "compiled_images_per_second") if key in result]
        for row in result["rows"]:
            if "skipped" in row:
                reasons.append((f"fovea {row['precision']}", row["skipped"]))
                continue
            rows.append([model, f"fovea {row['precision']}", f"{row['cosine_least']:.6f}", f"{row['cosine_mean']:.6f}",
                         number(row["features_images_per_second"]), ratio_in(row["precision"], row["features_images_per_second"], rivals, dtype),
                         number(row["photos_images_per_second"]), number(row["written_images_per_second"])])
        if rivals:
            rows.append([model, f"transformers {dtype}", f"{peer['cosine_least']:.6f}" if peer else "", f"{peer['cosine_mean']:.6f}" if peer else "",
                         number(rivals[0]), ratio(rivals[0], rivals), "", ""])
        if "compiled_images_per_second" in result:
            rows.append([model, f"torch.compile {dtype}", "", "", number(rivals[1]), ratio(rivals[1], rivals), "", ""])
        else:
            reasons.append((f"torch.compile {dtype}", result.get("compiled_skipped", UNTOLD)))
    return (
        f"### Features of patches\n\n{results[0]['images']:,} photos, f16. Cosines of tokens to transformers in fp32. Images per second "
        "from pixels with the result left on the device, from JPEG files the same, and from JPEG files to an output folder. Peers start from float pixels on "
        "the device.\n\n"
    ) + table(["model", "engine", "least cosine", "mean", "from pixels", "to the best peer", "from files", "written"], rows) + left_out(reasons)


SECTIONS = {
    "gpu_bench": gpu_bench_section,
    "gpu_end_to_end": gpu_end_to_end_section,
    "accuracy": accuracy_section,
    "python": python_section,
    "kernels": kernels_section,
    "operators_attention": operators_attention_section,
    "operators_accepted": operators_accepted_section,
    "torch_gemm": torch_gemm_section,
    "encoder": encoder_section,
    "cpu_times": cpu_times_section,
    "naflex": naflex_section,
    "texts": texts_section,
    "text_accuracy": text_accuracy_section,
    "features": features_section,
    "search_times": search_times_section,
    "search_times_gpu": search_times_section,
    "image": image_section,
    "end_to_end": end_to_end_section,
    "cold_start": cold_start_section,
    "memory": memory_section,
    "robustness": robustness_section,
}
