"""Writes docs/performance.md with its plots, and docs/gpu.md's table of accuracy, from the committed results, bench/results/<machine>/*.json.

    python3 bench/report.py           writes them
    python3 bench/report.py --check   fails when they are not what the results say
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "kernels"))

import laboratory  # noqa: E402
import plots  # noqa: E402
import variants  # noqa: E402
from laboratory import number, table  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
PLOTS = ROOT / "docs" / "plots"
GUIDE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- bench/report.py writes from here -->\n", "<!-- to here -->\n"  # in the guide
RESULTS = ROOT / "bench" / "results"
CARDS = ROOT / "lab" / "cards"

INTRODUCTION = """\
# Performance

`bench/report.py` generates this page from the committed results in `bench/results/`; no figure is typed. Encoder and image figures
are beside those of their peers in the same run on the same machine, whose outputs were compared first. Higher is better unless
a column says seconds or MiB. `scripts/bench` measures your machine.
"""


def is_fovea(entry: dict) -> bool:
    return entry["engine"].startswith("fovea")


def encoder_section(entries: list[dict]) -> str:
    """Rows by precision and batch size; Fovea first, then its peers from fast to slow. Many requests at once are compared with
    the best that a peer does in any form, one at a time with one at a time."""
    text = "### The encoder alone\n\n"
    groups: dict = {}
    for entry in entries:
        groups.setdefault((entry["precision"], entry["batch"], entry.get("requests", 1) > 1), []).append(entry)
    rows = []
    for (precision, batch, many), group in sorted(groups.items()):
        rivals = [e for e in group + (groups.get((precision, batch, False), []) if many else []) if not is_fovea(e)]
        best = max((e["images_per_second"] for e in rivals), default=None)
        for entry in sorted(group, key=lambda e: (not is_fovea(e), -e["images_per_second"])):
            ratio = f"{entry['images_per_second'] / best:.2f}x" if best else ""
            rows.append([entry["engine"], precision, str(batch), str(entry.get("requests", 1)),
                         number(entry["images_per_second"]), ratio])
    return text + table(["engine", "precision", "batch", "batches at once", "images/s", "to the best peer"], rows)


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
        "reading, of the second half of 0.15 s without pauses, when a GPU may be at its power limit. A ratio above 1 means that "
        "Fovea is faster; AMBIGUOUS means by less than the spread; peers in brackets leave part of the work undone.\n\n"
    )
    rows = []
    for figure in (figure for figure in result["figures"] if figure["card"] in known):
        seconds = figure["seconds"]
        flops = figure["flops"] / seconds
        rows.append([
            figure["card"], figure["description"], with_spread(figure), microseconds(figure["sustained"]),
            f"{figure['sm_mhz']:,} MHz, {figure['watts']:.0f} W", number(flops * 1e-12),
            share(flops, figure["matrix_ceiling"]),
            share(figure["bytes"] / seconds, result["copy_bytes_per_second"]),
            "<br>".join(kernel_peer(peer) for peer in figure["peers"]),
        ])
    text += table(
        ["card", "problem", "microseconds", "sustained", "clock, power", "TFLOP/s", "of the matrix rate",
         "of the copy rate", "peers: microseconds, ratio; ratio sustained"], rows
    )
    if result.get("missing"):
        text += "\nNot measured: " + "; ".join(result["missing"]) + ".\n"
    return text


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


def gpu_bench_section(entries: list[dict]) -> str:
    return "### The encoder on the GPU\n\nRates of `fovea bench --device cuda`: with the copies from and to the host, and by the GPU's own time.\n\n" + table(
        ["precision", "batch", "images/s", "milliseconds per call", "images/s, pixels on the GPU"],
        [[entry["precision"], str(entry["batch_size"]), number(entry["images_per_second"]),
          number(entry["median_seconds"] * 1e3), number(entry["device_images_per_second"])] for entry in entries],
    )


def torch_section(title: str):
    def render(entries: list[dict]) -> str:
        rows = [
            [entry["case"], entry["peer"], with_spread(entry) if "seconds" in entry else entry["skipped"],
             number(entry["tflops"]) if "tflops" in entry else "",
             number(entry["images_per_second"]) if "images_per_second" in entry else ""]
            for entry in entries
        ]
        return f"### torch on the same GPU: {title}\n\n" + table(
            ["case", "peer", "microseconds", "TFLOP/s", "images/s"], rows
        )

    return render


def mixed_precision(entry: dict) -> str:
    """The precision, and what is left out of it."""
    layers = entry.get("bf16_layers", 0)
    return entry["precision"] + (f", first {layers} layers bf16" if layers else "")


def accuracy_rows(result: dict) -> list[list[str]]:
    return [
        [entry["model"] + (f", at {entry['commit'][:12]}" if "commit" in entry else ""), entry["engine"], mixed_precision(entry), entry["calibration"] or "-", f"{entry['cosine_mean']:.5f}",
         f"{entry['cosine_percentile_1']:.5f}", f"{entry['cosine_min']:.5f}", f"{entry['recall_at_10']:.4f}"]
        for entry in result["rows"]
    ]


ACCURACY_COLUMNS = ["model", "engine", "precision", "calibrated on", "mean", "1st percentile", "minimum", "recall@10"]


def accuracy_section(result: dict) -> str:
    """All engines and precisions, each with the kinds of photos on which it is worst."""
    corpus = result["corpus"]
    rows = [
        [*row, ", ".join(f"{kind} {cosine:.4f}" for kind, cosine in list(entry["kinds"].items())[:3])]
        for row, entry in zip(accuracy_rows(result), result["rows"], strict=True)
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
    for model in dict.fromkeys(entry["model"] for entry in result["rows"]):
        entries = [entry for entry in result["rows"] if entry["model"] == model]
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


def guide(text: str) -> str:
    """The guide with its table of accuracy, of the newest result on a GPU that has one."""
    results = [json.loads(path.read_text()) for path in plots.in_order(RESULTS.glob("nvidia-*/*.json"))]
    newest = [result["accuracy"] for result in results if "accuracy" in result][-1:]
    told = "`bench/gpu_accuracy.py` has not been run on a GPU yet.\n"
    for result in newest:
        missed = shortfalls(result)
        told = table(ACCURACY_COLUMNS, accuracy_rows(result)) + "\n" + (
            "What falls short of our own bars: " + "; ".join(missed) if missed else
            "bf16 is nearer to fp32 than torch's bf16 in the mean and in the 1st percentile; recall@10 is at most 0.005 (int8) and "
            "0.01 (fp8) below that of torch's bf16") + ".\n"
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + told + END + rest.partition(END)[2]


def gpu_end_to_end_section(entries: list[dict]) -> str:
    return "### JPEGs to embeddings on the GPU\n\nPhotos of 500x375, in images per second.\n\n" + table(
        ["precision", "photos", "KB each", "decoding alone", "GPU alone", "`fovea embed`", "DataLoader and torch.compile",
         "least cosine to the CPU's"],
        [[entry["precision"], f"{entry['images']:,}", number(entry["mean_bytes"] / 1000), number(entry["decode_only"]),
          number(entry["gpu_only"]), number(entry["end_to_end"]),
          number(entry["dataloader"]) if "dataloader" in entry else "-", f"{entry['minimum_cosine_to_cpu']:.5f}"]
         for entry in entries],
    )


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


def sanitizer_section(result: dict) -> str:
    """compute-sanitizer. What is not clean is no figure: such a file must not be committed."""
    runs = result["runs"]
    if unclean := [f"{run['tool']} {run['card']}" for run in runs if not run["clean"]]:
        sys.exit(f"compute-sanitizer found errors, or did not run to its end: {', '.join(unclean)}")
    archs = {run["arch"] for run in runs}
    shipped = set().union(*(variants.shipped_for(arch) for arch in archs))
    rows, missing = [], set()
    for tool in dict.fromkeys(run["tool"] for run in runs):
        of_tool = [run for run in runs if run["tool"] == tool]
        launched = {name for run in of_tool for names in run["cases"].values() for name in names}
        missing |= shipped - launched
        rows.append([tool, f"{len(shipped & launched)}/{len(shipped)}", str(sum(len(run["cases"]) for run in of_tool)),
                     str(sum(run["errors"] for run in of_tool)), number(sum(run["seconds"] for run in of_tool))])
    text = (
        f"### compute-sanitizer {result['version']}\n\n`fovea kernel sanitize`: every kernel that ships for "
        f"{', '.join(f'sm_{arch}' for arch in sorted(archs))}, on small problems, by all plans.\n\n"
    ) + table(["tool", "kernels launched", "cases", "errors", "seconds, several runs at once"], rows)
    if missing:
        text += f"\nNot run under every tool since they were added: {', '.join(f'`{name}`' for name in sorted(missing))}.\n"
    return text


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
        rows += [[str(queries), e["engine"], f"{e['seconds']:.{digits}f}", f"{e['least_seconds']:.{digits}f}"] for e in group]
    text = (
        f"### Exact search{' on the GPU' if result.get('device') == 'cuda' else ''}, {result['rows']:,} rows\n\n"
        f"Rows of {result['dimension']} numbers in f16, the {result['k']} nearest, {result['threads']} threads. Every answer was "
        "compared with float64; peers have all rows in memory, unless it says of files. "
        "The median and the least of several turns.\n\n"
    ) + table(["queries", "engine", "seconds", "least"], rows)
    for left_out in result.get("skipped", []):
        text += f"\n{left_out['engine']} was left out: {left_out['why']}.\n"
    return text


def naflex_section(results: list[dict]) -> str:
    """Images of many aspect ratios beside transformers, which pads them."""
    rows = []
    for result in results:
        for entry in result["rates"]:
            rivals = [e["images_per_second"] for e in result["rates"] if not is_fovea(e) and
                      (e["precision"], e["batch"]) == (entry["precision"], entry["batch"])]
            ratio = f"{entry['images_per_second'] / max(rivals):.2f}x" if is_fovea(entry) and rivals else ""
            rows.append([result["device"], entry["engine"], entry["precision"], str(entry["batch"]),
                         number(entry["images_per_second"]), ratio, f"{entry['minimum_cosine']:.6f}"])
    return "### NaFlex: images of many aspect ratios\n\n" + table(
        ["device", "engine", "precision", "batch", "images/s", "to the best peer", "least cosine to fp32"], rows)


def features_section(results: list[dict]) -> str:
    """Features of tokens: values beside transformers in fp32, and rates beside its own."""
    rows = []
    for result in results:
        model = f"{result['model']}, {result['layer']}"
        for row in result["rows"]:
            rows.append([model, f"fovea {row['precision']}", f"{row['cosine_least']:.6f}", f"{row['cosine_mean']:.6f}",
                         number(row["features_images_per_second"]), number(row["photos_images_per_second"]),
                         number(row["written_images_per_second"])])
        peer = result.get("transformers_figures", {})
        rows.append([model, f"transformers {result['transformers_dtype']}",
                     f"{peer['cosine_least']:.6f}" if peer else "", f"{peer['cosine_mean']:.6f}" if peer else "",
                     number(result["transformers_images_per_second"]), "", ""])
    return (
        f"### Features of patches\n\n{results[0]['images']:,} photos, f16. Cosines of tokens to transformers in fp32. Images per second "
        "from pixels with the result left on the device, from JPEG files the same, and from JPEG files to an output folder.\n\n"
    ) + table(["model", "engine", "least cosine", "mean", "from pixels", "from files", "written"], rows)


SECTIONS = {
    "gpu_bench": gpu_bench_section,
    "gpu_end_to_end": gpu_end_to_end_section,
    "accuracy": accuracy_section,
    "python": python_section,
    "kernels": kernels_section,
    "operators_attention": operators_attention_section,
    "operators_accepted": operators_accepted_section,
    "torch_encoder": torch_section("the encoder"),
    "torch_gemm": torch_section("matrix products"),
    "encoder": encoder_section,
    "cpu_times": cpu_times_section,
    "naflex": naflex_section,
    "text_accuracy": text_accuracy_section,
    "features": features_section,
    "search_times": search_times_section,
    "search_times_gpu": search_times_section,
    "image": image_section,
    "end_to_end": end_to_end_section,
    "cold_start": cold_start_section,
    "memory": memory_section,
    "robustness": robustness_section,
    "sanitizer": sanitizer_section,
}


def machine_section(folder: pathlib.Path) -> str:
    """The newest result of each section of one machine."""
    newest = plots.newest(folder)
    found = laboratory.documents(folder)
    measured = laboratory.section(found)
    if not newest:
        return measured and f"## {folder.name}\n\n{measured}"
    # Of what `fovea kernel sanitize` was told to run alone, the section of an earlier, complete run says nothing.
    if "sanitizer" in newest and laboratory.covers(found.get("sanitizers", []), newest["sanitizer"][0]["runs"]):
        newest.pop("sanitizer")
    machine = newest["machine"][0]
    cpu = machine["cpu"]
    text = f"## {folder.name}\n\n{cpu['cores']} cores, {cpu['model']} ({', '.join(cpu['isa'])}), {machine['memory_gib']} GiB.\n\n"
    if gpu := machine.get("gpu"):
        forms = {"driver": "driver {}", "power_limit_w": "{} W", "max_sm_clock_mhz": "up to {} MHz"}
        text += ", ".join([gpu["name"], *(form.format(gpu[key]) for key, form in forms.items() if key in gpu)]) + ".\n\n"
    for name, render in SECTIONS.items():
        if name not in newest:
            continue
        result, where = newest[name]
        versions = ", ".join(f"{k} {v}" for k, v in where["versions"].items())
        text += render(result) + f"\nMeasured {where['date']} at commit {where['commit']}; {versions}.\n\n"
    return text + measured


def page(pictures: dict[str, plots.Picture]) -> str:
    machines = [machine_section(folder) for folder in sorted(RESULTS.glob("*")) if folder.is_dir()]
    shown = [f"![{picture.title}]({PLOTS.name}/{name})\n" for name, picture in pictures.items()]
    return "\n".join([INTRODUCTION, *shown, *machines]).rstrip() + "\n"


def main() -> int:
    pictures = plots.pictures(RESULTS)
    written = {PAGE: page(pictures), GUIDE: guide(GUIDE.read_text())} | {PLOTS / name: str(picture) for name, picture in pictures.items()}
    if "--check" in sys.argv:
        stale = [path.relative_to(ROOT) for path, text in written.items() if not path.exists() or path.read_text() != text]
        stale += [path.relative_to(ROOT) for path in PLOTS.glob("*") if path not in written]
        for path in stale:
            print(f"{path} is not what bench/results/ says; run python3 bench/report.py")
        if not stale:
            print("docs/performance.md, its plots and docs/gpu.md are what bench/results/ says")
        return 1 if stale else 0
    PLOTS.mkdir(exist_ok=True)
    for path in PLOTS.glob("*"):
        path.unlink()
    for path, text in written.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
