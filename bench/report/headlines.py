"""Makes the table of docs/performance.md: the main figures for users, each with the best peer of the same precision in
its run. Without a peer of that precision there is no ratio."""

import statistics
from collections.abc import Callable, Iterator

from report import gpu_sections
from report.comparisons import is_fovea, ratio
from report.tables import digits, duration

COLUMNS = "what | machine | Fovea | its best peer | of the peer | ratio | measured | commit"
NO_PEER = "no peer"
Headline = tuple[str, str, str, str, str]  # subject, Fovea's figure, peer, its figure, ratio


def headline(subject: str, entries: list[dict], key: str = "images_per_second", unit: str = "images/s") -> Headline:
    """Returns the highest rate of Fovea and the highest rate of a peer, with their ratio."""
    ours = max(entry[key] for entry in entries if is_fovea(entry))
    peer = max((entry for entry in entries if not is_fovea(entry)), key=lambda entry: entry[key], default=None)
    if not peer:
        return subject, f"{digits(ours)} {unit}", NO_PEER, "", ""
    return subject, f"{digits(ours)} {unit}", peer["engine"], f"{digits(peer[key])} {unit}", ratio(ours, [peer[key]])


def group_by_precision(entries: list[dict]) -> Iterator[tuple[str, list[dict]]]:
    """Yields each precision that Fovea was measured in, with the measured entries of Fovea and its peers."""
    measured = [entry for entry in entries if "skipped" not in entry]
    for precision in dict.fromkeys(entry["precision"] for entry in measured if is_fovea(entry)):
        yield precision, [entry for entry in measured if entry["precision"] == precision]


def batch_headlines(subject: str, entries: list[dict], key: str) -> Iterator[Headline]:
    """Yields the rates of each precision at the largest batch, and at batch 1 where that was measured."""
    for precision, group in group_by_precision(entries):
        batches = {entry["batch"] for entry in group if is_fovea(entry)}
        for batch in sorted({max(batches)} | ({1} & batches)):
            entries_of_batch = [entry for entry in group if entry["batch"] == batch]
            yield headline(f"{subject}, {precision}, batch {batch:,}", entries_of_batch, key)


def gpu_bench(run: dict) -> Iterator[Headline]:
    yield from batch_headlines(
        "encoder, pixels on the GPU", gpu_sections.gpu_encoder_rows(run["ours"], run["peers"]), "rate"
    )


def gpu_end_to_end(entries: list[dict]) -> Iterator[Headline]:
    peers = [peer | {"engine": peer["peer"]} for entry in entries for peer in entry.get("peers", [])]
    peers = [peer for peer in peers if "skipped" not in peer]
    for entry in entries:
        ours = {"engine": "fovea", "images_per_second": entry["end_to_end"]}
        rivals = peers if entry["precision"] == "bf16" else []
        yield headline(f"JPEGs to embeddings, {entry['precision']}", [ours, *rivals])


def encoder(entries: list[dict]) -> Iterator[Headline]:
    """Yields the rates on a CPU: for one image at a time, and the best rate in any mode."""
    for precision, group in group_by_precision(entries):
        single = [entry for entry in group if entry["batch"] == 1 and entry.get("requests", 1) == 1]
        if any(map(is_fovea, single)):
            yield headline(f"encoder, {precision}, one image at a time", single)
        yield headline(f"encoder, {precision}, best rate", group)


def naflex(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        yield from batch_headlines("NaFlex", result["rates"], "images_per_second")


def features(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        dtype = {"bfloat16": "bf16", "float32": "fp32"}.get(result.get("transformers_dtype", ""), "")
        keys = {"transformers": "transformers_images_per_second", "torch.compile": "compiled_images_per_second"}
        peers = [{"engine": name, "rate": result[key]} for name, key in keys.items() if key in result]
        for row in result["rows"]:
            if "skipped" not in row:
                ours = {"engine": "fovea", "rate": row["features_images_per_second"]}
                rivals = peers if row["precision"] == dtype else []
                yield headline(f"features of patches, {row['precision']}", [ours, *rivals], "rate")


def texts(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        for precision, group in group_by_precision(result["rows"]):
            yield headline(f"texts, {precision}", group, "from_texts_per_second", "texts/s")


def search_times(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        for queries in sorted({entry["queries"] for entry in result["results"]}):
            group = sorted((e for e in result["results"] if e["queries"] == queries), key=lambda e: e["seconds"])
            ours = next(e["seconds"] for e in group if e["engine"].lower().startswith("fovea"))
            peer = next((e for e in group if not e["engine"].lower().startswith("fovea")), None)
            subject = f"exact search, {queries} quer{'y' if queries == 1 else 'ies'} in {result['rows']:,} rows"
            if peer:
                yield (
                    subject,
                    duration(ours),
                    peer["engine"],
                    duration(peer["seconds"]),
                    f"{peer['seconds'] / ours:.2f}x",
                )
            else:
                yield subject, duration(ours), NO_PEER, "", ""


def operators_attention(result: dict) -> Iterator[Headline]:
    """Yields the ratios of the default level to torch's fastest backend."""
    ratios = []
    for row in result["rows"]:
        ours = row["fovea"].get(row.get("chosen", ""), {}).get("us")
        peers = [entry["us"] for entry in row["torch"].values() if "us" in entry]
        ratios += [min(peers) / ours] if ours and peers else []
    if ratios:
        subject = f"attention of PyTorch, {result['rows'][0]['dtype']}, {len(ratios)} shapes"
        figures = f"{min(ratios):.2f}x to {max(ratios):.2f}x, median {statistics.median(ratios):.2f}x"
        yield subject, "", "torch's fastest backend", "", figures


def accuracy(result: dict) -> Iterator[Headline]:
    """Yields recall@10 of each precision, with that of torch's bf16."""
    rows = gpu_sections.own_rows(result)
    for model in dict.fromkeys(entry["model"] for entry in rows):
        group = [entry for entry in rows if entry["model"] == model]
        peers = [(entry["recall_at_10"], entry["engine"]) for entry in group if entry["engine"].startswith("torch")]
        recall, name = max(peers, default=(0, ""))
        figures = (f"{name}, bf16", f"{recall:.4f}") if peers else (NO_PEER, "")
        for precision in ("bf16", "int8", "fp8"):
            recalls = [e["recall_at_10"] for e in group if (e["engine"], e["precision"]) == ("fovea", precision)]
            if recalls:
                yield f"recall@10 of {model}, {precision}", f"{max(recalls):.4f}", *figures, ""


def image(entries: list[dict]) -> Iterator[Headline]:
    for images, operation in dict.fromkeys((entry["images"], entry["operation"]) for entry in entries):
        group = [entry for entry in entries if (entry["images"], entry["operation"]) == (images, operation)]
        yield headline(f"{images}, {operation}, one core", group)


SECTIONS: dict[str, Callable[..., Iterator[Headline]]] = {
    "gpu_bench": gpu_bench, "gpu_end_to_end": gpu_end_to_end, "encoder": encoder, "naflex": naflex,
    "features": features, "texts": texts, "search_times": search_times, "search_times_gpu": search_times,
    "operators_attention": operators_attention, "image": image, "end_to_end": gpu_end_to_end, "accuracy": accuracy,
}  # fmt: skip


def rows(machine: str, results: dict[str, tuple]) -> list[list[str]]:
    """Returns the rows of one machine; each links to the machine's page."""
    link = f"[{machine}](performance/{machine}.md)"
    return [
        [subject, link, *figures, measured["date"], measured["commit"]]
        for name, headlines in SECTIONS.items() if name in results
        for result, measured in [results[name]]
        for subject, *figures in headlines(result)
    ]  # fmt: skip
