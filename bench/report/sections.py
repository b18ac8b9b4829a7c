"""The sections of a machine's page: what one run measured, as tables. A figure of ours has its ratio to the best
peer of the same type beside it, whether it wins or loses, and a peer that is missing has its reason."""

from report import gpu_sections
from report.comparisons import UNTOLD, is_fovea, left_out, ratio, ratio_in
from report.tables import number, table

# What bench/peers_cpu.py measures; a run that says nothing of one of them is an old one.
CPU_PEERS = (
    "transformers eager",
    "torch.compile",
    "torch.compile freezing",
    "onnxruntime",
    "OpenVINO latency",
    "OpenVINO latency static",
    "OpenVINO throughput",
    "OpenVINO throughput static",
)


def encoder_section(entries: list[dict]) -> str:
    """Rows by precision and batch size; Fovea first, then its peers from fast to slow. Many requests at once are
    compared with the best that a peer does in any form, one at a time with one at a time."""
    measured = [entry for entry in entries if "skipped" not in entry]
    groups: dict = {}
    for entry in measured:
        groups.setdefault((entry["precision"], entry["batch"], entry.get("requests", 1) > 1), []).append(entry)
    rows = []
    for (precision, batch, many), group in sorted(groups.items()):
        rivals = [e for e in group + (groups.get((precision, batch, False), []) if many else []) if not is_fovea(e)]
        for entry in sorted(group, key=lambda e: (not is_fovea(e), -e["images_per_second"])):
            rows.append(
                [
                    entry["engine"],
                    precision,
                    str(batch),
                    str(entry.get("requests", 1)),
                    number(entry["images_per_second"]),
                    ratio(entry["images_per_second"], [e["images_per_second"] for e in rivals]),
                ]
            )
    reasons = [(f"{entry['engine']} {entry['precision']}", entry["skipped"]) for entry in entries if "skipped" in entry]
    told = {(entry["engine"], entry["precision"]) for entry in entries}
    reasons += [
        (f"{peer} {precision}", UNTOLD)
        for precision in dict.fromkeys(entry["precision"] for entry in measured)
        for peer in CPU_PEERS
        if (peer, precision) not in told
    ]
    return (
        (
            '### The encoder alone\n\nbase-patch16-224, no decoding. torch.compile and OpenVINO "static" are compiled for each batch size alone; OpenVINO '
            "without that word and onnxruntime have one model for all of them. A ratio below 1 loses to the best peer of the same precision.\n\n"
        )
        + table(["engine", "precision", "batch", "batches at once", "images/s", "to the best peer"], rows)
        + left_out(reasons)
    )


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
        rows.append(
            [
                entry["engine"],
                precision,
                *(number(milliseconds[part]) if part in milliseconds else "" for part in parts),
                number(sum(milliseconds.values())),
                *(
                    f"{share:.0%}" if own else ""
                    for share in (
                        least * 1e-6 / milliseconds["products"],
                        attention * 1e-6 / milliseconds["attention"],
                        normed * 1e3 / milliseconds["norms"],
                    )
                ),
            ]
        )
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
        [
            images,
            operation,
            number(engines["fovea"]),
            number(engines["pillow"]),
            f"{engines['fovea'] / engines['pillow']:.2f}x",
        ]
        for (images, operation), engines in pairs.items()
    ]
    return text + table(["images", "operation", "Fovea, images/s", "Pillow, images/s", "ratio"], rows)


def end_to_end_section(entries: list[dict]) -> str:
    return "### End to end\n\nJPEGs of 500x375 from disk to embeddings, in images per second.\n\n" + table(
        ["precision", "decoding alone", "computing alone", "`fovea embed`", "share of the slower stage"],
        [
            [
                entry["precision"],
                number(entry["decode_only"]),
                number(entry["compute_only"]),
                number(entry["end_to_end"]),
                f"{entry['share_of_slower_stage']:.1%}",
            ]
            for entry in entries
        ],
    )


def cold_start_section(entries: list[dict]) -> str:
    return "### Cold start\n\nA new process embeds one photo, with the weights in the page cache.\n\n" + table(
        ["precision", "process, seconds", "one image's compute, seconds", "beyond compute, seconds"],
        [
            [
                entry["precision"],
                number(entry["process_seconds"]),
                number(entry["one_image_seconds"]),
                number(entry["beyond_compute_seconds"]),
            ]
            for entry in entries
        ],
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


def python_section(entries: list[dict]) -> str:
    return (
        "### `Encoder.embed` in Python beside `fovea embed`\n\nImages per second of long runs, of one call on a loaded model, and as the program "
        "itself reports for as many photos, including the load of the model.\n\n"
    ) + table(
        ["device", "Python", "`fovea embed`", "ratio", "photos", "one call", "`fovea embed` reports", "same values"],
        [
            [
                entry["device"],
                number(entry["python_images_per_second"]),
                number(entry["cli_images_per_second"]),
                f"{entry['python_to_cli']:.2f}",
                f"{entry['images']:,}",
                number(entry["call_images_per_second"]),
                number(entry["cli_reported_images_per_second"]),
                "yes" if entry["same_values"] else "NO",
            ]
            for entry in entries
        ],
    )


def text_accuracy_section(result: dict) -> str:
    """What each precision costs texts, beside transformers' bf16 on the same ones."""
    rows = [
        [
            name,
            f"{entry['mean']:.6f}",
            f"{entry['first_percentile']:.6f}",
            f"{entry['least']:.6f}",
            f"{entry['recall_at_10']:.4f}",
        ]
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
        rows += [
            [
                str(queries),
                e["engine"],
                f"{e['seconds']:.{digits}f}",
                f"{best / e['seconds']:.2f}x" if best else "no peer",
                f"{e['least_seconds']:.{digits}f}",
            ]
            for e in group
        ]
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
            rivals = [
                e["images_per_second"]
                for e in measured
                if not is_fovea(e) and (e["precision"], e["batch"]) == (entry["precision"], entry["batch"])
            ]
            rows.append(
                [
                    result["device"],
                    entry["engine"],
                    entry["precision"],
                    str(entry["batch"]),
                    number(entry["images_per_second"]),
                    ratio(entry["images_per_second"], rivals),
                    f"{entry['minimum_cosine']:.6f}",
                ]
            )
        reasons += [
            (f"{entry['engine']} {entry['precision']}", entry["skipped"])
            for entry in result["rates"]
            if "skipped" in entry
        ]
        if not any(entry["engine"].startswith("torch.compile") for entry in result["rates"]):
            reasons.append(("torch.compile", UNTOLD))
    return (
        "### NaFlex: images of many aspect ratios\n\n"
        + table(
            ["device", "engine", "precision", "batch", "images/s", "to the best peer", "least cosine to fp32"], rows
        )
        + left_out(reasons)
    )


def texts_section(results: list[dict]) -> str:
    """Rates of warm text towers, of all engines from strings, of those that take them also from token ids."""
    text = ""
    for result in results:
        measured = [row for row in result["rows"] if "skipped" not in row]
        rows = []
        for row in measured:
            rivals = [
                other["from_texts_per_second"]
                for other in measured
                if not is_fovea(other)
                and other["precision"] == row["precision"]
                and (row["batch"] == "all" or other["batch"] == row["batch"])
            ]
            rows.append(
                [
                    row["engine"],
                    row["precision"],
                    str(row["batch"]),
                    number(row["from_texts_per_second"]),
                    ratio(row["from_texts_per_second"], rivals),
                    number(row["from_tokens_per_second"]) if "from_tokens_per_second" in row else "",
                ]
            )
        text += (
            (
                f"### Texts on {'the GPU' if result['device'] == 'cuda' else 'the CPU'}\n\n{result['model']}, {result['tokens']} tokens for each text, engines warm; "
                'texts per second from strings, tokenizer included, and from token ids in the host\'s memory. "all" is one process over '
                f"{result['texts']:,} texts, without its start, beside the best batch of a peer. A ratio below 1 loses.\n\n"
            )
            + table(["engine", "precision", "batch", "from texts", "to the best peer", "from tokens"], rows)
            + left_out(
                (f"{row['engine']} {row['precision']}", row["skipped"]) for row in result["rows"] if "skipped" in row
            )
        )
    return text


def features_section(results: list[dict]) -> str:
    """Features of tokens: values beside transformers in fp32, and rates beside its own."""
    rows, reasons = [], []
    for result in results:
        model = f"{result['model']}, {result['layer']}"
        peer, dtype = (
            result.get("transformers_figures", {}),
            {"bfloat16": "bf16", "float32": "fp32"}.get(result.get("transformers_dtype", ""), ""),
        )
        rivals = [
            result[key] for key in ("transformers_images_per_second", "compiled_images_per_second") if key in result
        ]
        for row in result["rows"]:
            if "skipped" in row:
                reasons.append((f"fovea {row['precision']}", row["skipped"]))
                continue
            rows.append(
                [
                    model,
                    f"fovea {row['precision']}",
                    f"{row['cosine_least']:.6f}",
                    f"{row['cosine_mean']:.6f}",
                    number(row["features_images_per_second"]),
                    ratio_in(row["precision"], row["features_images_per_second"], rivals, dtype),
                    number(row["photos_images_per_second"]),
                    number(row["written_images_per_second"]),
                ]
            )
        if rivals:
            rows.append(
                [
                    model,
                    f"transformers {dtype}",
                    f"{peer['cosine_least']:.6f}" if peer else "",
                    f"{peer['cosine_mean']:.6f}" if peer else "",
                    number(rivals[0]),
                    ratio(rivals[0], rivals),
                    "",
                    "",
                ]
            )
        if "compiled_images_per_second" in result:
            rows.append([model, f"torch.compile {dtype}", "", "", number(rivals[1]), ratio(rivals[1], rivals), "", ""])
        else:
            reasons.append((f"torch.compile {dtype}", result.get("compiled_skipped", UNTOLD)))
    return (
        (
            f"### Features of patches\n\n{results[0]['images']:,} photos, f16. Cosines of tokens to transformers in fp32. Images per second "
            "from pixels with the result left on the device, from JPEG files the same, and from JPEG files to an output folder. Peers start from float pixels on "
            "the device.\n\n"
        )
        + table(
            ["model", "engine", "least cosine", "mean", "from pixels", "to the best peer", "from files", "written"],
            rows,
        )
        + left_out(reasons)
    )


SECTIONS = {
    "gpu_bench": gpu_sections.gpu_bench_section,
    "gpu_end_to_end": gpu_sections.gpu_end_to_end_section,
    "accuracy": gpu_sections.accuracy_section,
    "python": python_section,
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
    "end_to_end": end_to_end_section,
    "cold_start": cold_start_section,
    "memory": memory_section,
    "robustness": robustness_section,
}
