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
Rate = tuple[str, str, int, float]  # engine, precision, batch, images per second


def beside(what: str, unit: str, ours: float, rivals: list[tuple[str, float]]) -> Headline:
    """A rate beside the best that a peer reaches."""
    name, best = max(rivals, key=lambda rival: rival[1], default=(NO_PEER, 0.0))
    return (
        what,
        f"{digits(ours)} {unit}",
        name,
        f"{digits(best)} {unit}" if rivals else "",
        ratio(ours, [best]) if rivals else "",
    )


def by_batch(what: str, rates: list[Rate]) -> Iterator[Headline]:
    """Rates of each precision: one image at a time, where that was measured, and the largest batch."""
    for precision in dict.fromkeys(precision for engine, precision, _, _ in rates if engine == "fovea"):
        ours = {batch: rate for engine, kind, batch, rate in rates if engine == "fovea" and kind == precision}
        for batch in sorted({min(ours), max(ours)} if min(ours) == 1 else {max(ours)}):
            rivals = [
                (engine, rate)
                for engine, kind, size, rate in rates
                if (kind, size) == (precision, batch) and engine != "fovea"
            ]
            yield beside(f"{what}, {precision}, batch {batch:,}", "images/s", ours[batch], rivals)


def gpu_bench(run: dict) -> Iterator[Headline]:
    found = gpu_sections.gpu_encoder_rows(run["ours"], run["peers"])
    yield from by_batch(
        "encoder, pixels on the GPU", [(row["engine"], row["precision"], row["batch"], row["rate"]) for row in found]
    )


def gpu_end_to_end(entries: list[dict]) -> Iterator[Headline]:
    peers = [
        (peer["peer"], peer["images_per_second"])
        for entry in entries
        for peer in entry.get("peers", [])
        if "skipped" not in peer
    ]
    for entry in entries:
        yield beside(
            f"JPEGs to embeddings, {entry['precision']}",
            "images/s",
            entry["end_to_end"],
            peers if entry["precision"] == "bf16" else [],
        )


def encoder(entries: list[dict]) -> Iterator[Headline]:
    """Rates on a CPU: one image at a time, and as many as it can in any form."""
    measured = [entry for entry in entries if "skipped" not in entry]
    for precision in dict.fromkeys(entry["precision"] for entry in measured if is_fovea(entry)):
        cohort = [entry for entry in measured if entry["precision"] == precision]
        single = [entry for entry in cohort if entry["batch"] == 1 and entry.get("requests", 1) == 1]
        for what, group in (
            (f"encoder, {precision}, one image at a time", single),
            (f"encoder, {precision}, best rate", cohort),
        ):
            ours = [entry["images_per_second"] for entry in group if is_fovea(entry)]
            rivals = [(entry["engine"], entry["images_per_second"]) for entry in group if not is_fovea(entry)]
            if ours:
                yield beside(what, "images/s", max(ours), rivals)


def naflex(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        rates = [entry for entry in result["rates"] if "skipped" not in entry]
        yield from by_batch(
            "NaFlex",
            [(entry["engine"], entry["precision"], entry["batch"], entry["images_per_second"]) for entry in rates],
        )


def features(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        peers = {"transformers": "transformers_images_per_second", "torch.compile": "compiled_images_per_second"}
        dtype = {"bfloat16": "bf16", "float32": "fp32"}.get(result.get("transformers_dtype", ""), "")
        for row in result["rows"]:
            if "skipped" not in row:
                rivals = [
                    (name, result[key]) for name, key in peers.items() if key in result and row["precision"] == dtype
                ]
                yield beside(
                    f"features of patches, {row['precision']}", "images/s", row["features_images_per_second"], rivals
                )


def texts(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        rows = [row for row in result["rows"] if "skipped" not in row]
        for precision in dict.fromkeys(row["precision"] for row in rows if is_fovea(row)):
            cohort = [row for row in rows if row["precision"] == precision]
            ours = max(row["from_texts_per_second"] for row in cohort if is_fovea(row))
            rivals = [(row["engine"], row["from_texts_per_second"]) for row in cohort if not is_fovea(row)]
            yield beside(f"texts, {precision}", "texts/s", ours, rivals)


def search_times(results: list[dict]) -> Iterator[Headline]:
    for result in results:
        for queries in sorted({entry["queries"] for entry in result["results"]}):
            group = [entry for entry in result["results"] if entry["queries"] == queries]
            ours = min(entry["seconds"] for entry in group if entry["engine"].lower().startswith("fovea"))
            rivals = [entry for entry in group if not entry["engine"].lower().startswith("fovea")]
            best = min(rivals, key=lambda entry: entry["seconds"], default=None)
            what = f"exact search, {queries} quer{'y' if queries == 1 else 'ies'} in {result['rows']:,} rows"
            peer = (
                (best["engine"], duration(best["seconds"]), f"{best['seconds'] / ours:.2f}x")
                if best
                else (NO_PEER, "", "")
            )
            yield what, duration(ours), *peer


def operators_attention(result: dict) -> Iterator[Headline]:
    """The level that runs by default beside the fastest of torch's."""
    ratios = []
    for row in result["rows"]:
        ours = row["fovea"].get(row.get("chosen", ""), {}).get("us")
        reached = [entry["us"] for entry in row["torch"].values() if "us" in entry]
        ratios += [min(reached) / ours] if ours and reached else []
    if ratios:
        what = f"attention of PyTorch, {result['rows'][0]['dtype']}, {len(ratios)} shapes"
        yield (
            what,
            "",
            "torch's fastest backend",
            "",
            f"{min(ratios):.2f}x to {max(ratios):.2f}x, median {statistics.median(ratios):.2f}x",
        )


def accuracy(result: dict) -> Iterator[Headline]:
    """Neighbours kept, beside those that torch's bf16 keeps."""
    rows = gpu_sections.of_the_run(result)
    for model in dict.fromkeys(entry["model"] for entry in rows):
        cohort = [entry for entry in rows if entry["model"] == model]
        peers = [
            (f"{entry['engine']}, bf16", entry["recall_at_10"])
            for entry in cohort
            if entry["engine"].startswith("torch")
        ]
        name, torch = max(peers, key=lambda peer: peer[1], default=(NO_PEER, 0.0))
        for precision in ("bf16", "int8", "fp8"):
            ours = [
                entry["recall_at_10"]
                for entry in cohort
                if entry["engine"] == "fovea" and entry["precision"] == precision
            ]
            if ours:
                yield (
                    f"recall@10 of {model}, {precision}",
                    f"{max(ours):.4f}",
                    name,
                    f"{torch:.4f}" if peers else "",
                    "",
                )


def image(entries: list[dict]) -> Iterator[Headline]:
    pairs: dict = {}
    for entry in entries:
        pairs.setdefault((entry["images"], entry["operation"]), {})[entry["engine"]] = entry["images_per_second"]
    for (images, operation), engines in pairs.items():
        yield beside(f"{images}, {operation}, one core", "images/s", engines["fovea"], [("Pillow", engines["pillow"])])


def end_to_end(entries: list[dict]) -> Iterator[Headline]:
    for entry in entries:
        yield f"JPEGs to embeddings, {entry['precision']}", f"{digits(entry['end_to_end'])} images/s", NO_PEER, "", ""


SECTIONS: dict[str, Callable[..., Iterator[Headline]]] = {
    "gpu_bench": gpu_bench, "gpu_end_to_end": gpu_end_to_end, "encoder": encoder, "naflex": naflex,
    "features": features, "texts": texts,
    "search_times": search_times, "search_times_gpu": search_times, "operators_attention": operators_attention,
    "image": image,
    "end_to_end": end_to_end, "accuracy": accuracy,
}  # fmt: skip


def rows(machine: str, found: dict[str, tuple]) -> list[list[str]]:
    """Rows of one machine; each links to its page."""
    link = f"[{machine}](performance/{machine}.md)"
    return [
        [what, link, ours, peer, reached, ratio, measured["date"], measured["commit"]]
        for name, headlines in SECTIONS.items() if name in found
        for result, measured in [found[name]]
        for what, ours, peer, reached, ratio in headlines(result)
    ]  # fmt: skip
