"""Renders the sections of a machine's page: the results of one run as tables. Each figure of Fovea is shown with its
ratio to the best peer of the same type, whether it is faster or slower, and each missing peer with the reason."""

from collections.abc import Callable

from report import gpu_sections
from report.comparisons import UNTOLD, is_fovea, missing, ratio, ratio_to_precision, skipped, skipped_sentence
from report.tables import fields, number, table

# Peers measured by bench/peers_cpu.py; runs of older versions do not have all of them.
CPU_PEERS = (
    "transformers eager", "torch.compile", "torch.compile freezing", "onnxruntime", "OpenVINO latency",
    "OpenVINO latency static", "OpenVINO throughput", "OpenVINO throughput static",
)  # fmt: skip


def plain_section(title: str, columns: str, names: str) -> Callable[[list[dict]], str]:
    """Returns a function that renders the given fields of all entries as a table."""
    return lambda entries: f"### {title}\n\n" + table(columns, [fields(entry, names) for entry in entries])


def encoder_section(entries: list[dict]) -> str:
    """Renders rows by precision and batch size, with Fovea first and then its peers from fast to slow. A rate of
    parallel requests is compared with peers in any mode, and that of single requests only with single requests."""
    measured = [entry for entry in entries if "skipped" not in entry]
    groups: dict = {}
    for entry in measured:
        groups.setdefault((entry["precision"], entry["batch"], entry.get("requests", 1) > 1), []).append(entry)
    rows = []
    for (precision, batch, several), group in sorted(groups.items()):
        rivals = [e for e in group + (groups.get((precision, batch, False), []) if several else []) if not is_fovea(e)]
        for entry in sorted(group, key=lambda e: (not is_fovea(e), -e["images_per_second"])):
            ratio_text = ratio(entry["images_per_second"], [e["images_per_second"] for e in rivals])
            row = {"requests": 1} | entry | {"beside": ratio_text}
            rows.append(fields(row, "engine precision batch requests images_per_second beside"))
    introduction = (
        '### The encoder alone\n\nbase-patch16-224, no decoding. torch.compile and OpenVINO "static" are compiled for each batch size alone; OpenVINO '
        "without that word and onnxruntime have one model for all of them. A ratio below 1 loses to the best peer of the same precision.\n\n"
    )
    precisions = {entry["precision"]: None for entry in measured}
    known = {(entry["engine"], entry["precision"]) for entry in entries}
    unmentioned = missing(precisions, dict.fromkeys(precisions, CPU_PEERS), known)
    columns = "engine | precision | batch | batches at once | images/s | to the best peer"
    return introduction + table(columns, rows) + skipped_sentence(skipped(entries) + unmentioned)


def cpu_times_section(times: dict) -> str:
    """Renders a row for each precision and engine, with the shares of the ceilings that it reaches."""
    work, rates = times["work"], times["ceilings"]["matrix_gigaops"]
    copied = times["ceilings"]["copy_gigabytes"] * 1e9
    images = times["rows"][0]["batch"]
    parts = ("products", "attention", "norms", "pooling head", "between them")
    rows = []
    for entry in times["rows"]:
        precision, milliseconds = entry["precision"], entry["milliseconds"]
        # The output projection and attention run in bf16, or in fp32 where the CPU has no bf16.
        wide = "fp32" if precision == "fp32" or "bf16" not in rates else "bf16"
        ideal_products = work["other_products"] / rates[precision] + (work["out"] / rates[wide])
        attention = work["attention"] / rates[wide]
        # Norms read fp32 and write the type that the products read, except for the last one, which writes fp32.
        size = {"fp32": 4, "bf16": 2, "int8": 1}[precision]
        normed = work["normed"] * (4 + size) / copied
        comparable = precision != "int8" or is_fovea(entry)  # other engines quantize other layers
        took = (milliseconds[part] for part in ("products", "attention", "norms"))
        least_times = ideal_products * 1e-6, attention * 1e-6, normed * 1e3
        shares = [ideal / real for ideal, real in zip(least_times, took, strict=True)]
        rows.append([
            entry["engine"], precision, *(number(milliseconds[part]) if part in milliseconds else "" for part in parts),
            number(sum(milliseconds.values())), *(f"{share:.0%}" if comparable else "" for share in shares),
        ])  # fmt: skip
    listed = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    columns = (
        f"engine | precision | {' | '.join(parts)} | sum | products, of the ceiling | attention | norms, of copies"
    )
    return (
        f"### Where the time of a forward pass goes, {images} images\n\n"
        f"In milliseconds, one batch at a time. GELU is part of the products. OpenVINO's pooling head is among its layers. At most, "
        f"{times['threads']} threads make so many thousand million operations a second with operands in the nearest cache: "
        f"{listed}; copies read and write {times['ceilings']['copy_gigabytes']:.0f} GB a second. The last columns are shares of these; "
        "norms can exceed theirs, for they find their rows in caches.\n\n"
    ) + table(columns, rows)


def image_section(entries: list[dict]) -> str:
    text = "### Images, one core\n\n"
    pairs: dict = {}
    for entry in entries:
        pairs.setdefault((entry["images"], entry["operation"]), {})[entry["engine"]] = entry["images_per_second"]
    rows = [
        [*key, *fields(engines, "fovea pillow"), f"{engines['fovea'] / engines['pillow']:.2f}x"]
        for key, engines in pairs.items()
    ]
    return text + table("images | operation | Fovea, images/s | Pillow, images/s | ratio", rows)


def memory_section(entries: list[dict]) -> str:
    rows = [
        [entry["model"], entry["precision"], f"{int(images):,}", number(peak)]
        for entry in entries
        for images, peak in entry["peak_mib"].items()
    ]
    introduction = "### Peak memory\n\nThe largest resident memory of `fovea embed --synthetic N --batch-size 32`.\n\n"
    return introduction + table("model | precision | images | peak MiB", rows)


def robustness_section(entry: dict) -> str:
    kill, damage = entry["kill"], entry["damage"]
    answers = {True: "yes", False: "NO"}
    rows = [
        ["images in the job", f"{entry['images']:,}"],
        ["times killed with SIGKILL and resumed", str(kill["kills"])],
        ["output byte-identical to an uninterrupted run", answers[kill["identical"]]],
        ["damaged inputs in another run", str(damage["damaged"])],
        ["its exit code", str(damage["exit_code"])],
        ["each damaged input listed once", answers[damage["listed_once"]]],
        ["every other row right", f"{answers[damage['rows_right']]} (least cosine {damage['least_cosine']:.7f})"],
    ]
    return "### Killed, damaged, and nothing lost\n\n" + table("what | figure", rows)


def text_accuracy_section(result: dict) -> str:
    """Renders the accuracy of texts at each precision, with that of transformers in bf16 on the same texts."""
    names = "mean:.6f first_percentile:.6f least:.6f recall_at_10:.4f"
    rows = [[name, *fields(entry, names)] for name, entry in result["precisions"].items()]
    return (
        f"### Texts: accuracy by precision\n\n{result['texts']:,} texts, a model of random weights ({result['model']}), on "
        f"{'the GPU' if result['device'] == 'cuda' else 'the CPU'}. Cosines to, and the 10 nearest texts shared with, transformers in fp32.\n\n"
    ) + table("engine | mean | 1st percentile | least | recall@10", rows)


def search_times_section(results: list[dict]) -> str:
    """Renders the search times of each collection, from fast to slow."""
    return "\n".join(search_times_table(result) for result in results)


def search_times_table(result: dict) -> str:
    rows = []
    digits = 5 if result.get("device") == "cuda" else 3
    for queries in sorted({entry["queries"] for entry in result["results"]}):
        group = sorted((e for e in result["results"] if e["queries"] == queries), key=lambda e: e["seconds"])
        best = min((e["seconds"] for e in group if not e["engine"].lower().startswith("fovea")), default=None)
        for e in group:
            ratio_text = f"{best / e['seconds']:.2f}x" if best else "no peer"
            names = f"queries engine seconds:.{digits}f beside least_seconds:.{digits}f"
            rows.append(fields(e | {"beside": ratio_text}, names))
    text = (
        f"### Exact search{' on the GPU' if result.get('device') == 'cuda' else ''}, {result['rows']:,} rows\n\n"
        f"Rows of {result['dimension']} numbers in f16, the {result['k']} nearest, {result['threads']} threads. The answers to the first "
        f"{result.get('checked_queries', 16)} queries of each batch were compared with float64; peers have all rows in memory, unless it says of files. "
        "The median and the least of several turns; a ratio below 1 is slower than the best peer.\n\n"
    ) + table("queries | engine | seconds | to the best peer | least", rows)
    return text + skipped_sentence((peer["engine"], peer["why"]) for peer in result.get("skipped", []))


def naflex_section(results: list[dict]) -> str:
    """Renders rates on images of many aspect ratios, compared with transformers, which pads them."""
    rows, reasons = [], []
    for result in results:
        measured = [entry for entry in result["rates"] if "skipped" not in entry]
        for entry in measured:
            group = [e for e in measured if (e["precision"], e["batch"]) == (entry["precision"], entry["batch"])]
            rivals = [e["images_per_second"] for e in group if not is_fovea(e)]
            cells = {"device": result["device"], "beside": ratio(entry["images_per_second"], rivals)}
            names = "device engine precision batch images_per_second beside minimum_cosine:.6f"
            rows.append(fields(entry | cells, names))
        reasons += skipped(result["rates"])
        if not any(entry["engine"].startswith("torch.compile") for entry in result["rates"]):
            reasons.append(("torch.compile", UNTOLD))
    columns = "device | engine | precision | batch | images/s | to the best peer | least cosine to fp32"
    return "### NaFlex: images of many aspect ratios\n\n" + table(columns, rows) + skipped_sentence(reasons)


def texts_section(results: list[dict]) -> str:
    """Renders rates of warm text towers: from strings for all engines, and from token ids where they accept them."""
    text = ""
    for result in results:
        measured = [row for row in result["rows"] if "skipped" not in row]
        rows = []
        for row in measured:
            group = [other for other in measured if not is_fovea(other) and other["precision"] == row["precision"]]
            group = [other for other in group if row["batch"] in ("all", other["batch"])]
            rivals = [other["from_texts_per_second"] for other in group]
            row = row | {"beside": ratio(row["from_texts_per_second"], rivals)}
            rows.append(fields(row, "engine precision batch from_texts_per_second beside from_tokens_per_second"))
        text += (
            f"### Texts on {'the GPU' if result['device'] == 'cuda' else 'the CPU'}\n\n{result['model']}, {result['tokens']} tokens for each text, engines warm; "
            'texts per second from strings, tokenizer included, and from token ids in the host\'s memory. "all" is one process over '
            f"{result['texts']:,} texts, without its start, beside the best batch of a peer. A ratio below 1 loses.\n\n"
        )
        text += table("engine | precision | batch | from texts | to the best peer | from tokens", rows)
        text += skipped_sentence(skipped(result["rows"]))
    return text


def features_section(results: list[dict]) -> str:
    """Renders features of tokens: values compared with transformers in fp32, and rates with those of transformers."""
    rows, reasons = [], []
    for result in results:
        model = f"{result['model']}, {result['layer']}"
        peer = result.get("transformers_figures", {})
        dtype = {"bfloat16": "bf16", "float32": "fp32"}.get(result.get("transformers_dtype", ""), "")
        keys = "transformers_images_per_second", "compiled_images_per_second"
        rivals = [result[key] for key in keys if key in result]
        for row in result["rows"]:
            if "skipped" in row:
                reasons.append((f"fovea {row['precision']}", row["skipped"]))
                continue
            ratio_text = ratio_to_precision(row["precision"], row["features_images_per_second"], rivals, dtype)
            cells = row | {"model": model, "engine": f"fovea {row['precision']}", "beside": ratio_text}
            names = "model engine cosine_least:.6f cosine_mean:.6f features_images_per_second beside"
            rows.append(fields(cells, f"{names} photos_images_per_second written_images_per_second"))
        if rivals:
            cosines = fields(peer, "cosine_least:.6f cosine_mean:.6f")
            rows.append([model, f"transformers {dtype}", *cosines, number(rivals[0]), ratio(rivals[0], rivals), "", ""])
        if "compiled_images_per_second" in result:
            rows.append([model, f"torch.compile {dtype}", "", "", number(rivals[1]), ratio(rivals[1], rivals), "", ""])
        else:
            reasons.append((f"torch.compile {dtype}", result.get("compiled_skipped", UNTOLD)))
    introduction = (
        f"### Features of patches\n\n{results[0]['images']:,} photos, f16. Cosines of tokens to transformers in fp32. Images per second "
        "from pixels with the result left on the device, from JPEG files the same, and from JPEG files to an output folder. Peers start from float pixels on "
        "the device.\n\n"
    )
    columns = "model | engine | least cosine | mean | from pixels | to the best peer | from files | written"
    return introduction + table(columns, rows) + skipped_sentence(reasons)


SECTIONS: dict[str, Callable[..., str]] = {
    "gpu_bench": gpu_sections.gpu_bench_section,
    "gpu_end_to_end": gpu_sections.gpu_end_to_end_section,
    "accuracy": gpu_sections.accuracy_section,
    "python": plain_section(
        "`Encoder.embed` in Python beside `fovea embed`\n\nImages per second of long runs, of one call on a loaded model, and as the program "
        "itself reports for as many photos, including the load of the model.",
        "device | Python | `fovea embed` | ratio | photos | one call | `fovea embed` reports | same values",
        "device python_images_per_second cli_images_per_second python_to_cli:.2f images:, call_images_per_second "
        "cli_reported_images_per_second same_values",
    ),
    "kernels": gpu_sections.kernels_section,
    "operators_attention": gpu_sections.operators_attention_section,
    "operators_accepted": gpu_sections.operators_accepted_section,
    "torch_gemm": gpu_sections.torch_gemm_section,
    "encoder": encoder_section,
    "cpu_times": cpu_times_section,
    "naflex": naflex_section,
    "texts": texts_section,
    "text_accuracy": text_accuracy_section,
    "features": features_section,
    "search_times": search_times_section,
    "search_times_gpu": search_times_section,
    "image": image_section,
    "end_to_end": plain_section(
        "End to end\n\nJPEGs of 500x375 from disk to embeddings, in images per second.",
        "precision | decoding alone | computing alone | `fovea embed` | share of the slower stage",
        "precision decode_only compute_only end_to_end share_of_slower_stage:.1%",
    ),
    "cold_start": plain_section(
        "Cold start\n\nA new process embeds one photo, with the weights in the page cache.",
        "precision | process, seconds | one image's compute, seconds | beyond compute, seconds",
        "precision process_seconds one_image_seconds beyond_compute_seconds",
    ),
    "memory": memory_section,
    "robustness": robustness_section,
}
