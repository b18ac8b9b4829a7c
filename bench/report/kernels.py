"""Renders results of bench/run_gpu.py on the page: rooflines of kernels, the encoder, and the history of kernels."""

import dataclasses
import re
from collections.abc import Sequence

from report.markup import Html, breakable, element, figure, folded, join_html
from report.results import Document
from report.shapes import batch_size, images_per_second
from report.svg import Axes, Picture
from report.tables import Table, digits, duration, percent, times

GROUPS = ("Matrix products of 8 bits", "Matrix products of 16 bits", "Attention", "Rows, pixels and pooling")


@dataclasses.dataclass
class Kernel:
    """One kernel's time in one result."""

    device: str
    when: str
    roofs: dict  # ceilings measured in the same run
    order: int  # position of the result; newer results have larger numbers
    json: dict

    def __post_init__(self) -> None:
        self.card, self.case, self.description = (
            str(self.json.get(key) or "") for key in ("card", "case", "description")
        )
        self.flops, self.seconds = self.json["flops"], self.json["seconds"]
        self.peers = [peer for peer in self.json["peers"] if not peer.get("wrong")]
        self.matrix = self.json.get("matrix_ceiling") or 0
        self.spread = (self.json.get("spread") or 0) / 2 / self.seconds
        self.intensity, self.reached = self.flops / self.json["bytes"], self.flops / self.seconds
        by_memory = self.json["bytes"] / self.roofs["copy_bytes_per_second"] / self.seconds
        self.share_of_roof = max(by_memory, self.reached / self.matrix) if self.matrix > 0 else by_memory

    @property
    def group(self) -> int:
        # The description tells the operands' types; `matrix_ceiling` does not, as some GPUs have no rate for 8 bits.
        if self.description.startswith("gemm"):
            return 0 if re.search("8 x |e4m3 x ", self.description) else 1
        return 2 if self.description.startswith("attention") else 3

    def best_peer(self) -> str:
        """Returns the name of the fastest peer that gives the same result, and its time relative to this kernel's."""
        best = min((peer for peer in self.peers if peer["same_result"]), key=lambda peer: peer["seconds"], default=None)
        if not best:
            return ""
        return f"{times(best['ratio'], 2)}{' (within the spread)' if best['ambiguous'] else ''} {best['name']}"


def kernels(documents: Sequence[Document]) -> dict[tuple[str, str, str], list[Kernel]]:
    """Returns the times of each device, card and case, oldest first. Only the launcher's choice is included, not the
    timings of explicit plans."""
    kernels_by_case: dict[tuple[str, str, str], list[Kernel]] = {}
    for order, document in enumerate(documents):
        for timing in document.json.get("kernels", {}).get("figures", []):
            if not timing.get("plan"):
                kernel = Kernel(document.device, document.when, document.json["kernels"], order, timing)
                kernels_by_case.setdefault((kernel.device, kernel.card, kernel.case), []).append(kernel)
    return dict(sorted(kernels_by_case.items()))


def roofline(documents: Sequence[Document]) -> Html:
    groups: dict[tuple[str, int], list[Kernel]] = {}
    for results in kernels(documents).values():
        groups.setdefault((results[-1].device, results[-1].group), []).append(results[-1])
    if not groups:
        return Html()
    figures = []
    for (device, group), members in sorted(groups.items()):
        members.sort(key=lambda kernel: (kernel.intensity, kernel.card, kernel.case))
        title = f"{GROUPS[group]} on {device}"
        rows = [
            [element("b", i + 1) if kernel.flops > 0 else "",
             join_html(breakable(kernel.card), element("small", *subtitle(kernel))), duration(kernel.seconds),
             digits(kernel.reached * 1e-12) if kernel.flops > 0 else "-", percent(kernel.share_of_roof)]
            for i, kernel in enumerate(members)
        ]  # fmt: skip
        columns = " | kernel, and how many times as long the best peer takes | #time | #TFLOP/s | #of roof"
        figures.append(figure(title, roof_chart(title, members), Table(title, columns, rows).html()))
    introduction = (
        "Each number is a kernel, in its newest result. A circle is a peer on the same problem: below ours, it is slower. Roofs are rates that the same "
        "run measured; peers that leave part of the work undone are circles, and not in the tables."
    )
    return join_html(element("p", introduction), element("div", *figures, class_="grid wide"))


def subtitle(kernel: Kernel) -> list[Html]:
    peer = kernel.best_peer()
    return [breakable(kernel.case)] + ([Html("<br>"), join_html(peer)] if peer else [])


def roof_chart(title: str, members: list[Kernel]) -> Html:
    shown = [(i + 1, kernel) for i, kernel in enumerate(members) if kernel.flops > 0]
    if not shown:
        return Html()
    roofs = max((kernel for _, kernel in shown), key=lambda kernel: kernel.order).roofs
    copy, l2 = roofs["copy_bytes_per_second"] * 1e-12, (roofs.get("l2_bytes_per_second") or 0) * 1e-12
    bf16, e4m3 = ((roofs.get(name) or 0) * 1e-12 for name in ("bf16_flops", "e4m3_flops"))
    matrix = max(kernel.matrix for kernel in members) * 1e-12
    xs = [kernel.intensity for _, kernel in shown]
    dots = [
        (kernel, peer, (kernel.intensity, kernel.flops / peer["seconds"] * 1e-12))
        for _, kernel in shown
        for peer in kernel.peers
    ]
    ys = [kernel.reached * 1e-12 for _, kernel in shown] + [y for _, _, (_, y) in dots]
    low, high = min(xs) * 0.6, max(xs) * 1.7
    picture = Picture(
        420, 310, title,
        f"{len(shown)} kernels by operations per byte and operations per second, below the measured rates of memory and "
        "matrix units. The table holds the figures.")  # fmt: skip
    top = max(*ys, min(matrix, high * copy) if matrix else 0) * 1.5
    axes = Axes(picture, (52, 10, 398, 266), (low, high), (min(ys) * 0.6, top))
    axes.ticks(axes.x.ticks(60), axes.y.ticks(34), "operations per byte of device memory", "")
    picture.text((56, 22), "TFLOP/s", "tick")
    picture.field = (54, 26, 416, 264)
    for _, kernel in shown:
        picture.keep_free(axes.place(kernel.intensity, kernel.reached * 1e-12), 4)
    for _, _, point in dots:
        picture.keep_free(axes.place(*point), 3)
    draw_memory_roof(axes, copy, matrix, f"copy {digits(copy)} TB/s")
    draw_memory_roof(axes, l2, matrix, f"L2 {digits(l2)} TB/s")
    draw_level_roof(axes, bf16, copy, f"bf16 {digits(bf16)}")
    if matrix > 1.5 * bf16:
        draw_level_roof(axes, e4m3, copy, f"8 bits {digits(e4m3)}")
    for kernel, peer, point in dots:
        details = f"{kernel.card}: {peer['name']}, {duration(peer['seconds'])}, {digits(point[1])} TFLOP/s"
        picture.dot(axes.place(*point), 3.5, "peer", details)
    for i, kernel in shown:
        details = f"{i}. {kernel.card} {kernel.description}: {duration(kernel.seconds)}, {digits(kernel.reached * 1e-12)} TFLOP/s, {percent(kernel.share_of_roof)} of the roof"
        picture.dot(axes.place(kernel.intensity, kernel.reached * 1e-12), 4.5, "ours", details)
    for i, kernel in shown:
        picture.label(axes.place(kernel.intensity, kernel.reached * 1e-12), str(i), "name")
    return picture.html()


def draw_memory_roof(axes: Axes, rate: float, matrix: float, name: str) -> None:
    """Draws the roof of a memory's rate, up to the rate of the matrix units."""
    if rate <= 0:
        return
    low = max(axes.x.low, axes.y.low / rate)
    high = min(axes.x.high, axes.y.high / rate, matrix / rate if matrix > 0 else axes.x.high)
    if low < high:
        axes.picture.keep_line_free(axes.line([(low, low * rate), (high, high * rate)], "roof"))
        middle = (low * high) ** 0.5
        axes.picture.label(axes.place(middle, middle * rate), name, "tick")


def draw_level_roof(axes: Axes, rate: float, copy: float, name: str) -> None:
    low = max(rate / copy, axes.x.low)
    if low < axes.x.high and axes.y.low < rate < axes.y.high:
        points = axes.line([(low, rate), (axes.x.high, rate)], "roof")
        axes.picture.keep_line_free(points)
        right, y = points[-1]
        axes.picture.text((right, y - 5), name, "tick", "end")
        axes.picture.keep_free((right - 40, y - 9), 40, 10)


def encoder(documents: Sequence[Document]) -> Html:
    """Renders images per second by batch size. A newer result of a section replaces an older one."""
    newest: dict[str, dict[str, dict[str, tuple[str, dict[float, float]]]]] = {}
    for document in documents:
        for section in ("gpu_bench", "encoder", "torch_encoder"):
            lines: dict[str, tuple[str, dict[float, float]]] = {}
            for entry in document.json.get(section, []):
                if rate := images_per_second(entry):
                    engine = entry.get("engine") or entry.get("peer") or "fovea"
                    name = ", ".join(filter(None, [engine, entry.get("precision")]))
                    lines.setdefault(name, (document.when, {}))[1][batch_size(entry)] = rate
            if lines:
                newest.setdefault(document.device, {})[section] = lines
    figures = []
    for device, sections in sorted(newest.items()):
        lines = dict(
            sorted(
                (name, line) for section_lines in reversed(sections.values()) for name, line in section_lines.items()
            )
        )
        batches = sorted({batch for _, rates in lines.values() for batch in rates})
        rows = [
            [
                join_html(name, element("small", when)),
                *(digits(rates[batch]) if batch in rates else "-" for batch in batches),
            ]
            for name, (when, rates) in lines.items()
        ]
        title = f"Images per second on {device}"
        columns = " | ".join(["engine", *(f"#batch {batch:g}" for batch in batches)])
        figures.append(figure(title, Table(title, columns, rows).html()))
    return join_html(*figures)


def history(documents: Sequence[Document]) -> Html:
    """Renders each kernel's times in all results, as charts and as a table."""
    kernel_groups = kernels(documents).values()
    rows = [
        [kernel.card, kernel.case, kernel.device, kernel.when, duration(kernel.seconds), f"{kernel.spread:.1%}",
         kernel.best_peer()]
        for results in kernel_groups for kernel in results
    ]  # fmt: skip
    if not rows:
        return Html()
    introduction = "Time of each kernel in every result that has it, from the oldest to the newest; lower is better. Those measured once are in the table."
    charts = [history_chart(results) for results in kernel_groups if len(results) > 1]
    columns = "card | case | device | result | #time | #spread | to the best peer"
    return join_html(
        element("p", introduction),
        element("div", *charts, class_="grid small"),
        folded(f"All {len(rows)} figures as a table", Table("Times of kernels over the results", columns, rows).html()),
    )


def history_chart(results: list[Kernel]) -> Html:
    first, last = results[0], results[-1]
    change = last.seconds / first.seconds - 1
    low = min(kernel.seconds * (1 - kernel.spread) for kernel in results)
    high = max(kernel.seconds * (1 + kernel.spread) for kernel in results)
    middle = (low + high) / 2
    half = max((high - low) / 2 * 1.15, 0.06 * middle)  # keeps small changes from filling the chart
    summary = f"{duration(first.seconds)} in {first.when}, {duration(last.seconds)} in {last.when}"
    picture = Picture(300, 92, f"{last.card} {last.case}", summary)
    axes = Axes(picture, (16, 12, 284, 74), (0, len(results) - 1), (middle - half, middle + half), logarithmic=False)
    for i, kernel in enumerate(results):
        axes.line([(i, kernel.seconds * (1 - kernel.spread)), (i, kernel.seconds * (1 + kernel.spread))], "whisker")
    points = axes.line([(i, kernel.seconds) for i, kernel in enumerate(results)], "course")
    for point, kernel in zip(points, results, strict=True):
        picture.dot(point, 4, "ours", f"{kernel.when}: {duration(kernel.seconds)} ±{kernel.spread:.1%}")
    picture.text((6, 89), first.when[:10], "tick")
    picture.text((294, 89), last.when[:10], "tick", "end")
    kind = "better" if change < -0.01 else "worse" if change > 0.01 else "same"
    moved = element("span", f"{change:+.1%}", class_=kind)
    details = element("p", element("b", duration(last.seconds)), " ", moved, f" over {len(results)} results")
    return figure(join_html(last.card, " ", element("small", last.case)), details, picture.html())
