"""Draws the pictures of docs/performance.md, docs/plots/*.svg, from the committed results.

Pictures are 700 units wide, for light and dark pages. Colours are those of Okabe and Ito, which colour-blind readers
can distinguish, and every coloured line is also labelled. Titles state findings, whose figures are computed here."""

import math

from report import gpu_sections
from report.comparisons import is_fovea
from report.markup import Html
from report.svg import Axes, Picture, Point

WIDTH = 700
STYLE = """
:root { --page: #ffffff; --ink: #1f2328; --faint: #59636e; --grid: #e4e7eb; --blue: #0072b2; --orange: #c25400; --gray: #6e7781; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0d1117; --ink: #e6edf3; --faint: #9198a1; --grid: #262c36; --blue: #56b4e9; --orange: #e69f00; --gray: #9198a1; }
}
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--ink); }
.title { font-size: 16px; font-weight: 600; }
.tick { font-size: 12px; fill: var(--faint); }
.axis { stroke: var(--grid); }
.blue { --c: var(--blue); } .orange { --c: var(--orange); } .gray { --c: var(--gray); } .ink { --c: var(--ink); }
.line { fill: none; stroke: var(--c); stroke-width: 2; }
.between { stroke-dasharray: 2 5; }
.roof { fill: none; stroke: var(--c); stroke-width: 1.5; }
.zoom { fill: none; stroke: var(--ink); stroke-width: 0.7; stroke-dasharray: 3 3; }
.leader { fill: none; stroke: var(--faint); stroke-width: 0.7; }
.dot { fill: var(--c); stroke: var(--page); stroke-width: 1.5; }
.word { fill: var(--c); font-weight: 600; }
.name { fill: var(--c); }
"""


class Plot(Picture):
    """A picture in a file of its own, with a title and a note about the measurement."""

    def __init__(self, title: str, note: str, height: int):
        super().__init__(WIDTH, height, title)
        self.add("style", Html(STYLE))
        self.add("rect", width=WIDTH, height=height, fill="var(--page)")
        self.text((16, 28), title, "title")
        self.text((16, 48), note, "tick")

    def __str__(self) -> str:
        return self.html(xmlns="http://www.w3.org/2000/svg", width=WIDTH, height=f"{self.height:g}")


def spread_out(targets: list[float], distance: float, low: float, high: float) -> list[float]:
    """Returns positions near `targets`, in the same order, at least `distance` apart and between `low` and `high`."""
    order = sorted(range(len(targets)), key=lambda i: targets[i])
    placed = [0.0] * len(targets)
    position = low
    for i in order:
        position = placed[i] = max(targets[i], position)
        position += distance
    limit = high
    for i in reversed(order):
        limit = placed[i] = min(placed[i], limit)
        limit -= distance
    return placed


def rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def encoder_on_gpu(name: str, run: dict, machine: dict) -> Plot:
    """Draws images per second by batch size, by the GPU's own time, with pixels in its memory. The factors in the title
    cover all batch sizes that both sides have."""
    lines: dict[tuple[str, str], dict[int, float]] = {}
    for row in gpu_sections.gpu_encoder_rows(run["ours"], run["peers"]):
        engine = row["engine"].removesuffix(" max-autotune")
        lines.setdefault((engine, row["precision"]), {})[row["batch"]] = row["rate"]
    details, compared = speed_factors(lines)
    title = f"{name}: {', '.join(details)}" if details else f"On an {name}, without peers"
    batches = sorted({batch for line in lines.values() for batch in line})
    sizes = f"; factors at batch {', '.join(f'{batch:,}' for batch in compared)}" if compared else ""
    plot = Plot(title, f"base-patch16-224{sizes}; all of one run, {machine['date']} at {machine['commit'][:12]}.", 440)
    rates = [value for line in lines.values() for value in line.values()]
    low, high = 10.0 ** math.floor(math.log10(min(rates))), 5 * 10.0 ** math.ceil(math.log10(max(rates) / 5))
    axes = Axes(plot, (88, 70, 428, 385), (1, max(batches[-1], 2)), (low, high))
    axes.ticks(batches, axes.y.ticks(40), "images per batch", "images per second, pixels on the GPU")
    ends = []
    for (engine, precision), line in lines.items():
        ours = engine == "fovea"
        colour = "gray" if not ours else "blue" if precision == "bf16" else "orange"
        label = f"{'Fovea' if ours else engine.split(',')[0]}, {precision}"
        points = axes.line(sorted(line.items()), f"line {colour}" + (" between" if set(line) != set(batches) else ""))
        for (batch, value), point in zip(sorted(line.items()), points, strict=True):
            plot.dot(point, 5, f"dot {colour}", f"{label}, batch {batch}: {value:,.0f} images/s")
        ends.append((points[-1], colour, f"{label}: {rate(line[max(line)])}"))
    for ((x, _), colour, label), y in zip(ends, spread_out([end[0][1] for end in ends], 17, 70, 385), strict=True):
        plot.text((x + 10, y + (4 if x > 420 else -6)), label, f"word {colour}")
    return plot


def speed_factors(lines: dict[tuple[str, str], dict[int, float]]) -> tuple[list[str], list[int]]:
    """Returns phrases with Fovea's rate relative to the best peer, and the batch sizes that they cover."""
    details, sizes = [], set()
    for precision in ("bf16", "int8"):
        ours = lines.get(("fovea", precision), {})
        # 8 bits are also compared with bf16 peers, which may be faster than 8-bit ones.
        for rival in dict.fromkeys((precision, "bf16")):
            rivals = {engine: line for (engine, kind), line in lines.items() if kind == rival and engine != "fovea"}
            best_rates = (
                {batch: max(line.get(batch, 0) for line in rivals.values()) for batch in ours} if rivals else {}
            )
            ratios = {batch: ours[batch] / best for batch, best in best_rates.items() if best}
            if ratios:
                sizes |= set(ratios)
                best = max(rivals, key=lambda engine: max(rivals[engine].values())).split()[0]
                smallest, largest = f"{min(ratios.values()):.2f}", f"{max(ratios.values()):.2f}"
                span = smallest if smallest == largest else f"{smallest}–{largest}"
                details.append(f"{precision} {span}x {best}{'' if rival == precision else ' bf16'}")
    return details, sorted(sizes)


# Cards of the kernels that the encoder runs, by type of operands, with the colour of the type and labels of the cards.
ROOFLINE = {
    "8 bits": ("orange", {
        "patch_embed_u8": "patches", "gemm_qkv_int8": "QKV", "gemm_out_int8": "output projection",
        "gemm_fc1_int8": "FC1", "gemm_fc2_int8": "FC2"}),
    "bf16": ("blue", {
        "patch_embed_bf16": "patches", "gemm_qkv_norm": "norm + QKV", "gemm_out_bf16": "output projection",
        "gemm_fc1_norm": "norm + FC1", "gemm_fc2_bf16": "FC2",
        "attention": "attention", "layer_norm_i8": "LayerNorm to int8", "pool": "pooling head"}),
}  # fmt: skip
ZOOM = (200, 1700), (500, 1900)  # ranges of the enlarged part, in FLOP per byte and TFLOP/s


def roofline(name: str, kernels: dict, date: str) -> Plot:
    """Draws TFLOP/s over FLOP per byte, below the roofs that the same run measured."""
    copy = kernels["copy_bytes_per_second"] * 1e-12
    ceilings = {"bf16": kernels["bf16_flops"] * 1e-12, "8 bits": kernels["e4m3_flops"] * 1e-12}
    points = roofline_points(kernels, copy, ceilings)
    products = [point for point in points if point[0][0] > ZOOM[0][0]]
    shares = sorted(share for _, share, _, _ in products)
    title = f"On an {name}, matrix products reach {shares[0]:.0%} to {shares[-1]:.0%} of the roof"
    note = f"Kernels of base-patch16-224 at batch 1,024, in percent of the roof. Both were measured {date}."
    plot = Plot(title, note, 480)
    overview, zoom = Axes(plot, (80, 70, 330, 425), (1, 2000), (3, 2500)), Axes(plot, (385, 70, 690, 425), *ZOOM)
    overview.ticks([1, 10, 100, 1000], [10, 100, 1000], "FLOP per byte of memory traffic", "TFLOP/s")
    zoom.ticks([200, 500, 1000], [500, 1000, 1500], "the matrix products, enlarged", "")
    top = max(ceilings.values())
    for axes in (overview, zoom):
        low, high = axes.x.low, axes.x.high
        for kind, (colour, _) in ROOFLINE.items():
            flat = [(max(ceilings[kind] / copy, low), ceilings[kind]), (high, ceilings[kind])]
            plot.keep_line_free(axes.line(flat, f"roof {colour}"))
        plot.keep_line_free(axes.line([(low, low * copy), (top / copy, top)], "roof ink"))
    for kind, (colour, _) in ROOFLINE.items():
        x, y = overview.place(ceilings[kind] / copy, ceilings[kind])
        plot.text((x - 24, y + 2), f"{kind}: {ceilings[kind]:,.0f}", f"word {colour}", "end")
    x, y = overview.place(9, 9 * copy)
    plot.text((x + 8, y + 14), f"copy: {copy:.2f} TB/s", "tick")
    overview.line([(ZOOM[0][i], ZOOM[1][j]) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))], "zoom")
    plot.field = (zoom.box[0], 62, WIDTH - 6, zoom.box[3])
    for position, *_ in products:
        plot.keep_free(zoom.place(*position), 6)
    for position, share, colour, label in points:
        details = f"{label}: {position[1]:,.1f} TFLOP/s, {share:.0%} of the roof"
        plot.dot(overview.place(*position), 5, f"dot {colour}", details)
        if position[0] <= ZOOM[0][0]:
            x, y = overview.place(*position)
            plot.text((x + 9, y + 5), f"{label} {share:.0%}")
    for position, share, colour, label in sorted(products, key=lambda point: -point[0][0]):
        plot.dot(
            zoom.place(*position), 5, f"dot {colour}", f"{label}: {position[1]:,.1f} TFLOP/s, {share:.0%} of the roof"
        )
        plot.label(zoom.place(*position), f"{label} {share:.0%}", f"name {colour}", glyph=7.4)
    return plot


def roofline_points(kernels: dict, copy: float, ceilings: dict[str, float]) -> list[tuple[Point, float, str, str]]:
    """Returns the largest problem of each card of the encoder: its point, share of the roof, colour and label."""
    largest: dict = {}
    for figure in kernels["figures"]:
        known = largest.get(figure["card"])
        # The encoder's attention is the first case of its card, not the largest.
        if not known or known["flops"] < figure["flops"] and figure["card"] != "attention":
            largest[figure["card"]] = figure
    points = []
    for kind, (colour, cards) in ROOFLINE.items():
        for card, label in cards.items():
            figure = largest[card]
            intensity, reached = figure["flops"] / figure["bytes"], figure["flops"] / figure["seconds"] * 1e-12
            points.append(((intensity, reached), reached / min(ceilings[kind], intensity * copy), colour, label))
    return points


def ratios_on_cpu(entries: list[dict], precision: str, engine: str) -> tuple[dict[int, float], list[str]]:
    """Returns the ratios to the best peer by batch size, and the names of the peers. "fovea throughput" is compared
    with peers in all modes, other engines only with peers that run one batch at a time."""
    ratios: dict[int, float] = {}
    peers: dict[str, None] = {}
    peer_rows = [entry for entry in entries if not is_fovea(entry) and entry["precision"] == precision]
    if engine != "fovea throughput":
        peer_rows = [entry for entry in peer_rows if entry.get("requests", 1) == 1]
    for ours in (entry for entry in entries if (entry["precision"], entry["engine"]) == (precision, engine)):
        rivals = [entry for entry in peer_rows if entry["batch"] == ours["batch"]]
        if rivals:
            ratios[ours["batch"]] = ours["images_per_second"] / max(entry["images_per_second"] for entry in rivals)
            peers |= {entry["engine"].split()[0]: None for entry in rivals}
    return ratios, list(peers)


def encoder_on_cpus(machines: dict[str, tuple[list[dict], dict]]) -> Plot:
    """Draws the ratios to the best peer of the same run: a row per machine, precision and mode of Fovea, with a dot for
    each batch size."""
    groups = []
    for name, (entries, machine) in machines.items():
        entries = [entry for entry in entries if "skipped" not in entry]
        for precision, engine in sorted({(e["precision"], e["engine"]) for e in entries if is_fovea(e)}):
            ratios, peers = ratios_on_cpu(entries, precision, engine)
            if ratios:
                label = f"{name}, {precision}{', many batches' if engine == 'fovea throughput' else ''}"
                groups.append((label, ratios, f"beside {', '.join(peers)}", machine["date"]))
    every = [ratio for _, ratios, _, _ in groups for ratio in ratios.values()]
    title = "On CPUs, without peers"
    if every:
        title = f"On CPUs, Fovea is {min(every):.2f} to {max(every):.2f}x the best peer of the same run"
    dates = " and ".join(sorted({date for *_, date in groups}))
    bottom = 76 + 40 * len(groups)
    plot = Plot(title, f"base-patch16-224; a dot for each batch size, left of 1 Fovea is slower. {dates}.", bottom + 50)
    low, high = min([0.8, *every]) * 0.97, max([1.25, *every]) * 1.03
    axes = Axes(plot, (390, 66, 680, bottom), (low, high), (1, 10))
    ticks = [tick for tick in (0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3) if low < tick < high]
    axes.ticks(ticks, [], "Fovea's rate to that of its best peer", "")
    axes.line([(1, 1), (1, 10)], "roof ink")
    for number, (label, ratios, beside, _) in enumerate(groups):
        y = 84 + 40 * number
        plot.text((16, y + 4), label)
        plot.text((16, y + 19), beside, "tick")
        for batch, ratio in ratios.items():
            colour = "blue" if ratio >= 1 else "orange"
            plot.dot((axes.x(ratio), y + 4), 5, f"dot {colour}", f"batch {batch}: {ratio:.2f}x")
    return plot


def pictures(machines: dict[str, dict[str, tuple]]) -> dict[str, Plot]:
    """Returns the pictures of all machines, by file name."""
    drawn, cpus = {}, {}
    for folder, shown in machines.items():
        name = folder.removeprefix("nvidia-").upper()
        if "gpu_bench" in shown and shown["gpu_bench"][0]["peers"]:
            drawn[f"encoder-{folder}.svg"] = encoder_on_gpu(name, *shown["gpu_bench"])
        if "kernels" in shown:
            drawn[f"roofline-{folder}.svg"] = roofline(name, shown["kernels"][0], shown["kernels"][1]["date"])
        if "encoder" in shown:
            cpus[folder] = shown["encoder"]
    if cpus:
        drawn["encoder-cpus.svg"] = encoder_on_cpus(cpus)
    return drawn
