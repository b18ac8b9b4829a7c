"""The table of docs/performance.md: what a user looks for, each figure beside the best peer of the same precision in
its run. Where peers have none in that precision, nothing is won."""

import statistics
from collections.abc import Callable, Iterator

from report import gpu_sections
from report.comparisons import is_fovea, ratio
from report.tables import digits, duration

COLUMNS = "what | machine | Fovea | its best peer | of the peer | ratio | measured | commit"
NO_PEER = "no peer"
Headline = tuple[str, str, str, str, str]  # what, Fovea's figure, the peer's name, its figure, the ratio


def beside(what: str, entries: list[dict], key: str = "images_per_second", unit: str = "images/s") -> Headline:
    """The highest of our rates beside the best that a peer reaches."""
    ours = max(entry[key] for entry in entries if is_fovea(entry))
    peer = max((entry for entry in entries if not is_fovea(entry)), key=lambda entry: entry[key], default=None)
    if not peer:
        return what, f"{digits(ours)} {unit}", NO_PEER, "", ""
    return what, f"{digits(ours)} {unit}", peer["engine"], f"{digits(peer[key])} {unit}", ratio(ours, [peer[key]])


def by_precision(entries: list[dict]) -> Iterator[tuple[str, list[dict]]]:
    """Measured entries of each precision that Fovea has, those of its peers included."""
    measured = [entry for entry in entries if "skipped" not in entry]
    for precision in dict.fromkeys(entry["precision"] for entry in measured if is_fovea(entry)):
        yield precision, [entry for entry in measured if entry["precision"] == precision]


def by_batch(what: str, entries: list[dict], key: str) -> Iterator[Headline]:
    """Rates of each precision: one image at a time, where that was measured, and the largest batch."""
    for precision, group in by_precision(entries):
        batches = {entry["batch"] for entry in group if is_fovea(entry)}
        for batch in sorted({max(batches)} | ({1} & batches)):
            same = [entry for entry in group if entry["batch"] == batch]
            yield beside(f"{what}, {precision}, batch {batch:,}", same, key)


def gpu_bench(run: dict) -> Iterator[Headline]:
    yield from by_batch("encoder, pixels on the GPU", gpu_sections.gpu_encoder_rows(run["ours"], run["peers"]), "rate")


def gpu_end_to_end(entries: list[dict]) -> Iterator[Headline]:
    peers = [peer | {"engine": peer["peer"]} for entry in entries for peer in entry.get("peers", [])]
    peers = [peer for peer in peers if "skipped" not in peer]
    for entry in entries:
        ours = {"engine": "fovea", "images_per_second": entry["end_to_end"]}
        rivals = peers if entry["precision"] == "bf16" else []
        yield beside(f"JPEGs to embeddings, {entry['precision']}", [ours, *rivals])


def encoder(entries: list[dict]) -> Iterator[Headline]:
    """Rates on a CPU: one image at a time, and as many as it can in any form."""
    for precision, group in by_precision(entries):
        single = [entry for entry in group if entry["batch"] == 1 and entry.get("requests", 1) == 1]
        if any(map(is_fovea, single)):
            yield beside(f"encoder, {precision}, one image at a time", single)
        yield beside(f"encoder, {precision}, best rate", group)


def naflex(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        yield from by_batch("NaFlex", result["rates"], "images_per_second")


def features(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        dtype = {"bfloat16": "bf16", "float32": "fp32"}.get(result.get("transformers_dtype", ""), "")
        keys = {"transformers": "transformers_images_per_second", "torch.compile": "compiled_images_per_second"}
        peers = [{"engine": name, "rate": result[key]} for name, key in keys.items() if key in result]
        for row in result["rows"]:
            if "skipped" not in row:
                ours = {"engine": "fovea", "rate": row["features_images_per_second"]}
                rivals = peers if row["precision"] == dtype else []
                yield beside(f"features of patches, {row['precision']}", [ours, *rivals], "rate")


def texts(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        for precision, group in by_precision(result["rows"]):
            yield beside(f"texts, {precision}", group, "from_texts_per_second", "texts/s")


def search_times(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        for queries in sorted({entry["queries"] for entry in result["results"]}):
            group = sorted((e for e in result["results"] if e["queries"] == queries), key=lambda e: e["seconds"])
            ours = next(e["seconds"] for e in group if e["engine"].lower().startswith("fovea"))
            peer = next((e for e in group if not e["engine"].lower().startswith("fovea")), None)
            what = f"exact search, {queries} quer{'y' if queries == 1 else 'ies'} in {result['rows']:,} rows"
            if peer:
                yield what, duration(ours), peer["engine"], duration(peer["seconds"]), f"{peer['seconds'] / ours:.2f}x"
            else:
                yield what, duration(ours), NO_PEER, "", ""


def operators_attention(result: dict) -> Iterator[Headline]:
    """The level that runs by default beside the fastest of torch's."""
    ratios = []
    for row in result["rows"]:
        ours = row["fovea"].get(row.get("chosen", ""), {}).get("us")
        peers = [entry["us"] for entry in row["torch"].values() if "us" in entry]
        ratios += [min(peers) / ours] if ours and peers else []
    if ratios:
        what = f"attention of PyTorch, {result['rows'][0]['dtype']}, {len(ratios)} shapes"
        told = f"{min(ratios):.2f}x to {max(ratios):.2f}x, median {statistics.median(ratios):.2f}x"
        yield what, "", "torch's fastest backend", "", told


def accuracy(result: dict) -> Iterator[Headline]:
    """Neighbours kept, beside those that torch's bf16 keeps."""
    rows = gpu_sections.of_the_run(result)
    for model in dict.fromkeys(entry["model"] for entry in rows):
        group = [entry for entry in rows if entry["model"] == model]
        peers = [(entry["recall_at_10"], entry["engine"]) for entry in group if entry["engine"].startswith("torch")]
        recall, name = max(peers, default=(0, ""))
        told = (f"{name}, bf16", f"{recall:.4f}") if peers else (NO_PEER, "")
        for precision in ("bf16", "int8", "fp8"):
            kept = [e["recall_at_10"] for e in group if (e["engine"], e["precision"]) == ("fovea", precision)]
            if kept:
                yield f"recall@10 of {model}, {precision}", f"{max(kept):.4f}", *told, ""


def image(entries: list[dict]) -> Iterator[Headline]:
    for images, operation in dict.fromkeys((entry["images"], entry["operation"]) for entry in entries):
        group = [entry for entry in entries if (entry["images"], entry["operation"]) == (images, operation)]
        yield beside(f"{images}, {operation}, one core", group)


SECTIONS: dict[str, Callable[..., Iterator[Headline]]] = {
    "gpu_bench": gpu_bench, "gpu_end_to_end": gpu_end_to_end, "encoder": encoder, "naflex": naflex,
    "features": features, "texts": texts, "search_times": search_times, "search_times_gpu": search_times,
    "operators_attention": operators_attention, "image": image, "end_to_end": gpu_end_to_end, "accuracy": accuracy,
}  # fmt: skip


def rows(machine: str, found: dict[str, tuple]) -> list[list[str]]:
    """Rows of one machine; each links to its page."""
    link = f"[{machine}](performance/{machine}.md)"
    return [
        [what, link, *told, measured["date"], measured["commit"]]
        for name, headlines in SECTIONS.items() if name in found
        for result, measured in [found[name]]
        for what, *told in headlines(result)
    ]  # fmt: skip
