"""The pictures of docs/performance.md, docs/plots/*.svg, drawn from the committed results; bench/report.py writes and
checks them.

Plain SVG, 700 units wide, for light and dark pages. Colours are Okabe and Ito's, which colour-blind readers can tell
apart; what a colour says is also written beside it. Titles are findings: their figures are computed here, too."""

import math
from html import escape

import gpu_sections

WIDTH = 700
STYLE = """\
:root { --page: #ffffff; --ink: #1f2328; --faint: #59636e; --grid: #e4e7eb; --blue: #0072b2; --orange: #c25400; --gray: #6e7781; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0d1117; --ink: #e6edf3; --faint: #9198a1; --grid: #262c36; --blue: #56b4e9; --orange: #e69f00; --gray: #9198a1; }
}
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--ink); }
.title { font-size: 16px; font-weight: 600; }
.note, .tick { font-size: 12px; fill: var(--faint); }
.grid { stroke: var(--grid); }
.blue { --c: var(--blue); } .orange { --c: var(--orange); } .gray { --c: var(--gray); } .ink { --c: var(--ink); }
.line { fill: none; stroke: var(--c); stroke-width: 2; }
.between { stroke-dasharray: 2 5; }
.roof { fill: none; stroke: var(--c); stroke-width: 1.5; }
.leader { fill: none; stroke: var(--c); stroke-width: 0.7; stroke-dasharray: 3 3; }
.fill { fill: var(--c); }
.dot { fill: var(--c); stroke: var(--page); stroke-width: 1.5; }
.word { fill: var(--c); font-weight: 600; }
.name { fill: var(--c); }
"""


class Picture:
    """Elements, one a line, under a title and a note of what was measured."""

    def __init__(self, title: str, note: str, height: int):
        self.title, self.height = title, height
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height}" fill="var(--page)"/>',
        ]
        self.text(16, 28, title, "title")
        self.text(16, 48, note, "note")

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start", turn: bool = False):
        more = f' class="{kind}"' if kind else ""
        more += f' text-anchor="{anchor}"' if anchor != "start" else ""
        more += f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(words)}</text>')

    def path(self, points: list[tuple[float, float]], kind: str):
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.lines.append(f'<polyline points="{steps}" class="{kind}"/>')

    def dot(self, x: float, y: float, colour: str, says: str):
        self.lines.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="dot {colour}"><title>{escape(says)}</title></circle>'
        )

    def label(self, x: float, y: float, words: str, kind: str, taken: list[tuple], box: tuple):
        """Beside a dot, on the first side where nothing else is; `taken` are rectangles, to which this adds its own."""
        width = 7.8 * len(words)
        sides = [(10, -7), (-10 - width, -7), (-width / 2, -22), (10, 2), (-width / 2, 8), (10 - width, 8)]
        rectangles = [(x + dx, y + dy, x + dx + width, y + dy + 14) for dx, dy in sides]

        def free(one: tuple) -> bool:
            inside = one[0] >= box[0] and one[2] <= box[2] + 8 and one[1] >= box[1] - 8 and one[3] <= box[3]
            return inside and not any(
                one[0] < o[2] and o[0] < one[2] and one[1] < o[3] and o[1] < one[3] for o in taken
            )

        place = next(filter(free, rectangles), rectangles[0])
        taken.append(place)
        self.text(place[0], place[3] - 2, words, kind)

    def bar(self, x: float, y: float, width: float, height: float, colour: str):
        self.lines.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" class="fill {colour}"/>'
        )

    def __str__(self) -> str:
        return "\n".join([*self.lines, "</svg>"]) + "\n"


class LogAxes:
    """A field of a picture with logarithmic scales: `box` is left, top, right and bottom; ranges are (least,
    largest)."""

    def __init__(self, picture: Picture, box: tuple[float, float, float, float], x_range, y_range):
        self.picture, self.box, self.ranges = picture, box, (x_range, y_range)

    def x(self, value: float) -> float:
        (low, high), (left, _, right, _) = self.ranges[0], self.box
        return left + (right - left) * math.log(value / low) / math.log(high / low)

    def y(self, value: float) -> float:
        (low, high), (_, top, _, bottom) = self.ranges[1], self.box
        return bottom - (bottom - top) * math.log(value / low) / math.log(high / low)

    def line(self, points: list[tuple[float, float]], kind: str):
        """Between values of the axes."""
        self.picture.path([(self.x(x), self.y(y)) for x, y in points], kind)

    def ticks(self, x_ticks: list[float], y_ticks: list[float], x_name: str, y_name: str):
        left, top, right, bottom = self.box
        for value in y_ticks:
            self.line([(self.ranges[0][0], value), (self.ranges[0][1], value)], "grid")
            self.picture.text(left - 8, self.y(value) + 4, f"{value:,g}", "tick", "end")
        for value in x_ticks:
            self.line([(value, self.ranges[1][0]), (value, self.ranges[1][1])], "grid")
            self.picture.text(self.x(value), bottom + 18, f"{value:,g}", "tick", "middle")
        self.picture.text((left + right) / 2, bottom + 38, x_name, "note", "middle")
        self.picture.text(24, (top + bottom) / 2, y_name, "note", "middle", turn=True)


def apart(wanted: list[float], least: float, low: float, high: float) -> list[float]:
    """Positions in the order of `wanted`, near it, `least` apart and between low and high."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [0.0] * len(wanted)
    at = low
    for i in order:
        at = placed[i] = max(wanted[i], at)
        at += least
    limit = high
    for i in reversed(order):
        limit = placed[i] = min(placed[i], limit)
        limit -= least
    return placed


def rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def encoder_on_gpu(name: str, run: dict, machine: dict) -> Picture:
    """Images per second by batch size, by the GPU's own time, with pixels in its memory; factors are of all batch sizes
    that both sides have."""
    lines: dict[tuple[str, str], dict[int, float]] = {}
    for row in gpu_sections.gpu_encoder_rows(run["ours"], run["peers"]):
        lines.setdefault((row["engine"].removesuffix(" max-autotune"), row["precision"]), {})[row["batch"]] = row[
            "rate"
        ]
    told, at = [], set()
    for precision in ("bf16", "int8"):
        ours = lines.get(("fovea", precision), {})
        for theirs in dict.fromkeys(
            (precision, "bf16")
        ):  # 8 bits also beside what peers do without them, which may be faster
            rivals = {engine: line for (engine, of), line in lines.items() if of == theirs and engine != "fovea"}
            found = {
                batch: rate / max(line.get(batch, 0) for line in rivals.values())
                for batch, rate in ours.items()
                if any(batch in line for line in rivals.values())
            }
            if found:
                at |= set(found)
                best = max(rivals, key=lambda engine: max(rivals[engine].values())).split()[0]
                least, most = f"{min(found.values()):.2f}", f"{max(found.values()):.2f}"
                factor = f"{least}x" if least == most else f"{least}–{most}x"
                told.append(f"{precision} {factor} {best}" if theirs == precision else f"int8 {factor} {best} bf16")
    title = f"{name}: {', '.join(told)}" if told else f"On an {name}, without peers"
    batches = sorted({batch for line in lines.values() for batch in line})
    sizes = f"; factors at batch {', '.join(f'{batch:,}' for batch in sorted(at))}" if at else ""
    note = f"base-patch16-224{sizes}; all of one run, {machine['date']} at {machine['commit'][:12]}."
    picture = Picture(title, note, 440)
    rates = [value for line in lines.values() for value in line.values()]
    axes = LogAxes(
        picture,
        (88, 70, 428, 385),
        (1, max(batches[-1], 2)),
        (10 ** math.floor(math.log10(min(rates))), 10 ** math.ceil(math.log10(max(rates) / 5)) * 5),
    )
    decades = range(int(math.log10(axes.ranges[1][0])), 6)
    steps = [step * 10**decade for decade in decades for step in (1, 2, 5) if step * 10**decade <= axes.ranges[1][1]]
    axes.ticks(batches, steps, "images per batch", "images per second, pixels on the GPU")
    ends = []
    for (engine, precision), line in lines.items():
        ours = engine == "fovea"
        colour = "gray" if not ours else "blue" if precision == "bf16" else "orange"
        label = f"{'Fovea' if ours else engine.split(',')[0]}, {precision}"
        points = [(axes.x(batch), axes.y(value)) for batch, value in sorted(line.items())]
        picture.path(points, f"line {colour}" + (" between" if set(line) != set(batches) else ""))
        for (batch, value), (x, y) in zip(sorted(line.items()), points, strict=True):
            picture.dot(x, y, colour, f"{label}, batch {batch}: {value:,.0f} images/s")
        ends.append((points[-1], colour, f"{label}: {rate(line[max(line)])}"))
    for ((x, _), colour, label), y in zip(ends, apart([end[0][1] for end in ends], 17, 70, 385), strict=True):
        picture.text(x + 10, y + (4 if x > 420 else -6), label, f"word {colour}")
    return picture


# The kernels that the encoder runs, one card after another, with their names in the picture.
ROOFLINE = {
    "8 bits": (
        "orange",
        {
            "patch_embed_u8": "patches",
            "gemm_qkv_int8": "QKV",
            "gemm_out_int8": "output projection",
            "gemm_fc1_int8": "FC1",
            "gemm_fc2_int8": "FC2",
        },
    ),
    "bf16": (
        "blue",
        {
            "patch_embed_bf16": "patches",
            "gemm_qkv_norm": "norm + QKV",
            "gemm_out_bf16": "output projection",
            "gemm_fc1_norm": "norm + FC1",
            "gemm_fc2_bf16": "FC2",
            "attention": "attention",
            "layer_norm_i8": "LayerNorm to int8",
            "pool": "pooling head",
        },
    ),
}


ZOOM = (200, 1700), (500, 1900)  # FLOP per byte and TFLOP/s of the enlarged part


def roofline(name: str, kernels: dict, date: str) -> Picture:
    """TFLOP/s over FLOP per byte, below the rates that the same run measured."""
    copy, ceilings = (
        kernels["copy_bytes_per_second"] * 1e-12,
        {"bf16": kernels["bf16_flops"] * 1e-12, "8 bits": kernels["e4m3_flops"] * 1e-12},
    )
    largest: dict = {}
    for figure in kernels["figures"]:
        known = largest.get(figure["card"])
        if (
            not known or known["flops"] < figure["flops"] and figure["card"] != "attention"
        ):  # its first is the encoder's
            largest[figure["card"]] = figure
    points = []
    for kind, (colour, cards) in ROOFLINE.items():
        for card, label in cards.items():
            figure = largest[card]
            intensity, reached = figure["flops"] / figure["bytes"], figure["flops"] / figure["seconds"] * 1e-12
            points.append((intensity, reached, reached / min(ceilings[kind], intensity * copy), colour, label))
    products = [point for point in points if point[0] > ZOOM[0][0]]
    shares = sorted(point[2] for point in products)
    title = f"On an {name}, matrix products reach {shares[0]:.0%} to {shares[-1]:.0%} of the roof"
    note = f"Kernels of base-patch16-224 at batch 1,024, in percent of the roof. Both were measured {date}."
    picture = Picture(title, note, 480)
    whole = LogAxes(picture, (80, 70, 330, 425), (1, 2000), (3, 2500))
    whole.ticks([1, 10, 100, 1000], [10, 100, 1000], "FLOP per byte of memory traffic", "TFLOP/s")
    zoom = LogAxes(picture, (385, 70, 690, 425), *ZOOM)
    zoom.ticks([200, 500, 1000], [500, 1000, 1500], "the matrix products, enlarged", "")
    top = max(ceilings.values())
    for axes in (whole, zoom):
        (low, high), _ = axes.ranges
        for kind, (colour, _) in ROOFLINE.items():
            axes.line([(max(ceilings[kind] / copy, low), ceilings[kind]), (high, ceilings[kind])], f"roof {colour}")
        axes.line([(low, low * copy), (top / copy, top)], "roof ink")
    for kind, (colour, _) in ROOFLINE.items():
        at = whole.x(ceilings[kind] / copy), whole.y(ceilings[kind])
        picture.text(at[0] - 24, at[1] + 2, f"{kind}: {ceilings[kind]:,.0f}", f"word {colour}", "end")
    picture.text(whole.x(9) + 8, whole.y(9 * copy) + 14, f"copy: {copy:.2f} TB/s", "note")
    corners = [(ZOOM[0][i], ZOOM[1][j]) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))]
    whole.line(corners, "leader ink")
    dots = [(zoom.x(point[0]), zoom.y(point[1])) for point in products]
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in dots]
    taken += [(zoom.x(flops / copy), zoom.y(flops) - 2, zoom.box[2], zoom.y(flops) + 2) for flops in ceilings.values()]
    for step in range(40):  # along the copy rate
        at = ZOOM[0][0] * (top / copy / ZOOM[0][0]) ** (step / 39)
        taken.append((zoom.x(at) - 3, zoom.y(at * copy) - 3, zoom.x(at) + 3, zoom.y(at * copy) + 3))
    for intensity, reached, share, colour, label in points:
        picture.dot(
            whole.x(intensity), whole.y(reached), colour, f"{label}: {reached:,.1f} TFLOP/s, {share:.0%} of the roof"
        )
        if intensity <= ZOOM[0][0]:
            picture.text(whole.x(intensity) + 9, whole.y(reached) + 5, f"{label} {share:.0%}")
    for (_, reached, share, colour, label), (x, y) in sorted(zip(products, dots, strict=True), reverse=True):
        picture.dot(x, y, colour, f"{label}: {reached:,.1f} TFLOP/s, {share:.0%} of the roof")
        picture.label(x, y, f"{label} {share:.0%}", f"name {colour}", taken, zoom.box)
    return picture


def encoder_on_cpus(machines: dict[str, tuple[list[dict], dict]]) -> Picture:
    """A row per machine, precision and form in which Fovea has a peer, with a dot for each batch size: the ratio to the
    best peer of that run."""
    groups = []
    for name, (entries, machine) in machines.items():
        entries = [entry for entry in entries if "skipped" not in entry]
        for precision, engine in sorted(
            {(entry["precision"], entry["engine"]) for entry in entries if entry["engine"].startswith("fovea")}
        ):
            many, ratios, peers = engine == "fovea throughput", {}, {}
            for ours in (entry for entry in entries if (entry["precision"], entry["engine"]) == (precision, engine)):
                rivals = [
                    entry
                    for entry in entries
                    if not entry["engine"].startswith("fovea")
                    and (many or entry.get("requests", 1) == 1)
                    and (entry["precision"], entry["batch"]) == (precision, ours["batch"])
                ]
                if rivals:
                    ratios[ours["batch"]] = ours["images_per_second"] / max(
                        entry["images_per_second"] for entry in rivals
                    )
                    peers |= {entry["engine"].split()[0]: None for entry in rivals}
            if ratios:
                groups.append(
                    (
                        f"{name}, {precision}{', many batches' if many else ''}",
                        ratios,
                        f"beside {', '.join(peers)}",
                        machine["date"],
                    )
                )
    every = [ratio for _, ratios, _, _ in groups for ratio in ratios.values()]
    title = (
        f"On CPUs, Fovea is {min(every):.2f} to {max(every):.2f}x the best peer of the same run"
        if every
        else "On CPUs, without peers"
    )
    dates = " and ".join(sorted({date for *_, date in groups}))
    bottom = 76 + 40 * len(groups)
    picture = Picture(
        title, f"base-patch16-224; a dot for each batch size, left of 1 Fovea is slower. {dates}.", bottom + 50
    )
    low, high = min([0.8, *every]) * 0.97, max([1.25, *every]) * 1.03
    axes = LogAxes(picture, (390, 66, 680, bottom), (low, high), (1, 10))
    axes.ticks(
        [tick for tick in (0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3) if low < tick < high],
        [],
        "Fovea's rate to that of its best peer",
        "",
    )
    axes.line([(1, 1), (1, 10)], "roof ink")
    for number, (label, ratios, peers, _) in enumerate(groups):
        y = 84 + 40 * number
        picture.text(16, y + 4, label)
        picture.text(16, y + 19, peers, "note")
        for batch, ratio in ratios.items():
            picture.dot(axes.x(ratio), y + 4, "blue" if ratio >= 1 else "orange", f"batch {batch}: {ratio:.2f}x")
    return picture


def pictures(machines: dict[str, dict[str, tuple]]) -> dict[str, Picture]:
    """By the names of their files, of what the page shows of each machine."""
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
