"""Figures in words, and tables that are written once and shown as Markdown and as HTML."""

import dataclasses
import functools
import math
import pathlib
import re
from collections.abc import Iterable, Sequence

from report.markup import Html, breakable, element, folded, joined, printable

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_ON_PHONES = 5  # columns: with more, each row becomes a list there


class Badge(str):
    """A verdict, in the colour of a good or a bad one; `good` is None for neither."""

    def __new__(cls, word: str, good: bool | None = None) -> "Badge":
        badge = super().__new__(cls, word)
        badge.good = good
        return badge

    good: bool | None


class Code(str):
    """A name, a command or a line of code."""


class Lines(tuple[object, ...]):
    """Cells above each other in one."""


class Row(tuple[object, ...]):
    """Cells side by side in one, such as a badge and how often it was given."""


@dataclasses.dataclass
class Table:
    """Columns have " | " between them, and one that begins with '#' holds numbers. The caption is for those who cannot
    see the page."""

    caption: str
    columns: str
    rows: Sequence[Sequence[object]]

    def __bool__(self) -> bool:
        return bool(self.rows)

    def markdown(self) -> str:
        return table(self.columns.replace("#", ""), [[markdown_cell(part) for part in row] for row in self.rows])

    def html(self) -> Html:
        """A table that scrolls by itself where it is too wide; nothing without rows."""
        if not self.rows:
            return Html()
        names = self.columns.split(" | ")
        columns = [(name.removeprefix("#"), "n" if name.startswith("#") else None) for name in names]
        head = element("tr", *(element("th", name, scope="col", class_=kind) for name, kind in columns))
        rows = [
            joined(element("tr", *(element("td", html_cell(part), class_=kind, data_of=name)
                                   for part, (name, kind) in zip(row, columns, strict=True))), "\n")
            for row in self.rows
        ]  # fmt: skip
        inside = element("caption", self.caption), element("thead", head), element("tbody", "\n", *rows)
        kind = "lists" if len(names) > MOST_ON_PHONES else None
        shown = element("table", *inside, class_=kind)
        return Html(element("div", shown, class_="scroll", role="region", tabindex=0, aria_label=self.caption) + "\n")

    def folded(self, summary: str) -> Html:
        return folded(summary, self.html()) if self.rows else Html()


def html_cell(cell: object) -> Html:
    if isinstance(cell, Badge):
        kind = "badge" if cell.good is None else "badge good" if cell.good else "badge bad"
        return element("span", cell, class_=kind)
    if isinstance(cell, Code):
        return element("code", cell)
    if isinstance(cell, Lines | Row):
        between = Html("<br>") if isinstance(cell, Lines) else Html(" ")
        return Html(between.join(html_cell(part) for part in cell))
    return cell if isinstance(cell, Html) else breakable("-" if cell is None else str(cell))


def markdown_cell(cell: object) -> str:
    if isinstance(cell, Lines | Row):
        return ("<br>" if isinstance(cell, Lines) else " ").join(markdown_cell(part) for part in cell) or "-"
    return f"`{printable(cell)}`" if isinstance(cell, Code) else foreign("-" if cell is None else str(cell))


def table(columns: str, rows: Iterable[Sequence[object]]) -> str:
    """A table of columns that " | " parts, and cells that are Markdown."""
    lines = [columns.split(" | "), ["---"] * len(columns.split(" | ")), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def fields(entry: dict, names: str) -> list[str]:
    """Values of an entry as cells: three digits of a float, or as "name:.5f" says; nothing for what is missing."""

    def cell(value: object, form: str) -> str:
        if value is None or isinstance(value, bool):
            return {None: "", True: "yes", False: "NO"}[value]
        return format(value, form) if form else number(value) if isinstance(value, float) else str(value)

    parts = [name.partition(":") for name in names.split()]
    return [cell(entry.get(key), form) for key, _, form in parts]


def number(value: float) -> str:
    """Three significant digits, in plain notation where it is short."""
    return f"{value:,.0f}" if abs(value) >= 99.95 and abs(value) < 1e12 else f"{value:.3g}"


def digits(value: float) -> str:
    """Three significant digits, with zeros behind the point: for columns of times."""
    size = abs(value)
    if not 1e-4 <= size < 99.95:
        return number(value)
    return f"{value:.{2 - math.floor(math.log10(size))}f}"


def percent(share: float) -> str:
    return f"{100 * share:.{1 if 0 < abs(share) < 0.1 else 0}f}%"


def duration(seconds: float) -> str:
    """83.1 µs, 4.20 ms"""
    size = abs(seconds)
    factor, unit = (1e6, "µs") if size < 1e-3 else (1e3, "ms") if size < 1 else (1, "s")
    return f"{digits(seconds * factor)} {unit}"


def times(ratio: float, places: int = 3) -> str:
    return f"{ratio:.{places}f}x"


def in_words(name: str) -> str:
    return name.replace("_", " ")


def listed(values: dict) -> str:
    """stages 5, warps 8"""
    return ", ".join(f"{name} {value}" for name, value in values.items())


@functools.cache
def share_names() -> frozenset[str]:
    """The figures of a profile that are shares, as the laboratory says: 0.4 of a wave of CTAs is none, and a share may
    be 1."""
    source = (ROOT / "lab" / "profile" / "figures.cpp").read_text()
    of_gates = {"occupancy_reached"}
    return frozenset(re.findall(r'\{"(\w+)",\s*"[^"]*",\s*true\}', source)) | of_gates


def named_figure(name: str, value: float) -> str:
    """A time, a share in percent, many bytes in MB or GB/s, or a number."""
    per_second = "per_second" in name
    if "seconds" in name and not per_second:
        return duration(value)
    if "bytes" in name and value >= 1e7:
        return f"{number(value / 1e9)} GB/s" if per_second else f"{number(value / 1e6)} MB"
    if name in share_names() or name.startswith("stall_"):
        return percent(value)
    return f"{value:.0f}" if value == int(value) and abs(value) < 100 else digits(value)


def foreign(text: str) -> str:
    """What someone else wrote, as Markdown: no markup, nothing that a terminal obeys."""
    return printable(text).replace("|", "\\|").replace("<", "&lt;")
