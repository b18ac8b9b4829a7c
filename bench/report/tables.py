"""Formats figures, and renders tables as Markdown and as HTML."""

import dataclasses
import functools
import math
import pathlib
import re
from collections.abc import Iterable, Sequence

from report.markup import Html, breakable, element, folded, join_html, printable

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_COLUMNS_ON_PHONES = 5  # with more columns, phones show each row as a list


class Badge(str):
    """A coloured verdict: good, bad, or neither (None)."""

    def __new__(cls, text: str, good: bool | None = None) -> "Badge":
        badge = super().__new__(cls, text)
        badge.good = good
        return badge

    good: bool | None


class Code(str):
    """A name, a command or a line of code."""


class Lines(tuple[object, ...]):
    """Several lines in one cell."""


class Row(tuple[object, ...]):
    """Several items side by side in one cell, such as a badge and a count."""


@dataclasses.dataclass
class Table:
    """A table. `columns` are separated by " | ", and the name of a numeric column begins with '#'. The caption is for
    screen readers."""

    caption: str
    columns: str
    rows: Sequence[Sequence[object]]

    def __bool__(self) -> bool:
        return bool(self.rows)

    def markdown(self) -> str:
        return table(self.columns.replace("#", ""), [[markdown_cell(part) for part in row] for row in self.rows])

    def html(self) -> Html:
        """Returns a table that scrolls horizontally where it is too wide, or nothing without rows."""
        if not self.rows:
            return Html()
        names = self.columns.split(" | ")
        columns = [(name.removeprefix("#"), "n" if name.startswith("#") else None) for name in names]
        head = element("tr", *(element("th", name, scope="col", class_=kind) for name, kind in columns))
        rows = [
            join_html(element("tr", *(element("td", html_cell(part), class_=kind, data_of=name)
                                   for part, (name, kind) in zip(row, columns, strict=True))), "\n")
            for row in self.rows
        ]  # fmt: skip
        inside = element("caption", self.caption), element("thead", head), element("tbody", "\n", *rows)
        kind = "lists" if len(names) > MAX_COLUMNS_ON_PHONES else None
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
    return f"`{printable(cell)}`" if isinstance(cell, Code) else escape_markdown("-" if cell is None else str(cell))


def table(columns: str, rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table. `columns` are separated by " | ", and cells are Markdown."""
    lines = [columns.split(" | "), ["---"] * len(columns.split(" | ")), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def fields(entry: dict, names: str) -> list[str]:
    """Returns values of an entry as cells. Floats have three significant digits or a format as in "name:.5f"; a missing
    value is an empty cell."""

    def cell(value: object, form: str) -> str:
        if value is None or isinstance(value, bool):
            return {None: "", True: "yes", False: "NO"}[value]
        return format(value, form) if form else number(value) if isinstance(value, float) else str(value)

    parts = [name.partition(":") for name in names.split()]
    return [cell(entry.get(key), form) for key, _, form in parts]


def number(value: float) -> str:
    """Formats a number with three significant digits, in plain notation where that is short."""
    return f"{value:,.0f}" if abs(value) >= 99.95 and abs(value) < 1e12 else f"{value:.3g}"


def digits(value: float) -> str:
    """Formats a number with three significant digits and trailing zeros, for columns of times."""
    size = abs(value)
    if not 1e-4 <= size < 99.95:
        return number(value)
    return f"{value:.{2 - math.floor(math.log10(size))}f}"


def percent(share: float) -> str:
    return f"{100 * share:.{1 if 0 < abs(share) < 0.1 else 0}f}%"


def duration(seconds: float) -> str:
    """Formats a time, such as 83.1 µs or 4.20 ms."""
    size = abs(seconds)
    factor, unit = (1e6, "µs") if size < 1e-3 else (1e3, "ms") if size < 1 else (1, "s")
    return f"{digits(seconds * factor)} {unit}"


def times(ratio: float, digits_after_point: int = 3) -> str:
    return f"{ratio:.{digits_after_point}f}x"


def readable_name(name: str) -> str:
    return name.replace("_", " ")


def format_values(values: dict) -> str:
    """Formats named values, such as "stages 5, warps 8"."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


@functools.cache
def share_names() -> frozenset[str]:
    """Returns the figures of profiles that are shares, from the laboratory's sources, because values alone do not tell:
    0.4 waves of CTAs are not a share."""
    source = (ROOT / "lab" / "profile" / "figures.cpp").read_text()
    gate_shares = {"occupancy_reached"}
    return frozenset(re.findall(r'\{"(\w+)",\s*"[^"]*",\s*true\}', source)) | gate_shares


def named_figure(name: str, value: float) -> str:
    """Formats a figure by its name: as a time, a percentage, MB or GB/s, or a plain number."""
    per_second = "per_second" in name
    if "seconds" in name and not per_second:
        return duration(value)
    if "bytes" in name and value >= 1e7:
        return f"{number(value / 1e9)} GB/s" if per_second else f"{number(value / 1e6)} MB"
    if name in share_names() or name.startswith("stall_"):
        return percent(value)
    return f"{value:.0f}" if value == int(value) and abs(value) < 100 else digits(value)


def escape_markdown(text: str) -> str:
    """Escapes text from a result file for Markdown, without markup and terminal controls."""
    return printable(text).replace("|", "\\|").replace("<", "&lt;")
