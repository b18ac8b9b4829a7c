"""Writes the SVG pictures of the page and of docs/. It uses no packages, so that the output is the same on every
machine: `--check` compares the committed pictures byte by byte. The parameter `kind` is a CSS class."""

import math
from collections.abc import Sequence

from report.markup import Html, element
from report.tables import digits

Point = tuple[float, float]
Box = tuple[float, float, float, float]


class Picture:
    """A picture that scales with its container. The title and the description are its text alternative."""

    def __init__(self, width: float, height: float, title: str, description: str = "", kind: str | None = None):
        self.width, self.height, self.title, self.kind = width, height, title, kind
        self.elements: list[Html] = [element("title", title)] + ([element("desc", description)] if description else [])
        self.field = (0.0, 0.0, width, height)  # area for labels: left, top, right, bottom
        self.taken: list[tuple[float, float, float, float]] = []  # occupied rectangles: centre x and y, half sizes

    def add(self, tag: str, *inside: object, **attributes: object) -> None:
        self.elements.append(element(tag, *inside, **attributes))

    def line(self, points: Sequence[Point], kind: str) -> None:
        self.add("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=kind)

    def dot(self, point: Point, radius: float, kind: str, hover: str) -> None:
        """Draws a dot; `hover` is its tooltip."""
        x, y = (f"{value:.1f}" for value in point)
        self.add("circle", element("title", hover), cx=x, cy=y, r=f"{radius:g}", class_=kind)

    def text(
        self, point: Point, words: str, kind: str | None = None, anchor: str | None = None, turned: bool = False
    ) -> None:
        x, y = (f"{value:.1f}" for value in point)
        transform = f"rotate(-90 {x} {y})" if turned else None
        self.add("text", words, x=x, y=y, class_=kind, text_anchor=anchor, transform=transform)

    def keep_free(self, centre: Point, half_width: float, half_height: float | None = None) -> None:
        """Marks a rectangle as occupied, so that labels avoid it."""
        self.taken.append((*centre, half_width, half_width if half_height is None else half_height))

    def keep_line_free(self, points: Sequence[Point], half: float = 3) -> None:
        for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
            steps = int(math.hypot(x1 - x0, y1 - y0) / (2 * half)) + 1
            for step in range(steps + 1):
                self.keep_free((x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps), half)

    def label(self, target: Point, words: str, kind: str, glyph: float = 6.6) -> None:
        """Writes text near `target` where it overlaps nothing, with a thin line to the target if it is far away."""
        half_width, half_height = glyph * len(words) / 2 + 1, 6.5
        left, top, right, bottom = self.field

        def is_free(x: float, y: float) -> bool:
            inside = left <= x - half_width and x + half_width <= right
            inside &= top <= y - half_height and y + half_height <= bottom
            return inside and not any(
                abs(a - x) < w + half_width and abs(b - y) < h + half_height for a, b, w, h in self.taken
            )

        directions, centre, away = 16, (target[0] + half_width + 6, target[1] - 8), 0.0
        for i in range(8 * directions):
            away = 4 + 9.0 * (i // directions)
            angle = 2 * math.pi * (i % directions) / directions - math.pi / 4
            x, y = (half_width + away) * math.cos(angle), (half_height + away) * math.sin(angle)
            if is_free(target[0] + x, target[1] + y):
                centre = target[0] + x, target[1] + y
                break
        if away > 14:
            x, y = (
                p + min(max(a - p, -half), half)
                for p, a, half in zip(centre, target, (half_width, half_height), strict=True)
            )
            self.line([target, (x, y)], "leader")
        self.keep_free(centre, half_width, half_height)
        self.text((centre[0], centre[1] + 4), words, kind, "middle")

    def html(self, **attributes: object) -> Html:
        inside = Html("\n".join(["", *self.elements, ""]))
        attributes = {"viewBox": f"0 0 {self.width:g} {self.height:g}", "role": "img", "class_": self.kind} | attributes
        return Html(element("svg", inside, **attributes) + "\n")


class Scale:
    """Maps values to coordinates of a picture, logarithmically or linearly."""

    def __init__(self, low: float, high: float, begin: float, end: float, logarithmic: bool = True):
        self.low, self.high, self.begin, self.end, self.logarithmic = low, high, begin, end, logarithmic

    def __call__(self, value: float) -> float:
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * share

    def ticks(self, distance: float) -> list[float]:
        """Returns as many round values in the range as fit at a distance of `distance` units."""
        limit = max(1.0, abs(self.end - self.begin) / distance)
        if not self.logarithmic:
            min_step = (self.high - self.low) / limit
            unit = 10.0 ** math.floor(math.log10(min_step))
            step = next(step * unit for step in (1, 2, 5, 10) if step * unit >= min_step)
            return [i * step for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        choices = [((1, 1.5, 2, 3, 5, 7), 1), ((1, 2, 5), 1), ((1, 3), 1)]
        choices += [((1,), every) for every in (1, 2, 4, 8, 16, 32)]
        round_values: list[float] = []
        for steps, every in choices:
            values = (step * 10.0**decade for decade in decades[::every] for step in steps)
            round_values = [value for value in values if self.low <= value <= self.high]
            if len(round_values) <= limit:
                break
        return round_values


class Axes:
    """An area of a picture with two scales. `box` is left, top, right and bottom; ranges are (minimum, maximum)."""

    def __init__(self, picture: Picture, box: Box, x_range: Point, y_range: Point, logarithmic: bool = True):
        left, top, right, bottom = box
        self.picture, self.box = picture, box
        self.x, self.y = Scale(*x_range, left, right, logarithmic), Scale(*y_range, bottom, top, logarithmic)

    def place(self, x: float, y: float) -> Point:
        return self.x(x), self.y(y)

    def line(self, points: Sequence[Point], kind: str) -> list[Point]:
        """Draws a line through points given in values of the axes, and returns their coordinates in the picture."""
        coordinates = [self.place(*point) for point in points]
        self.picture.line(coordinates, kind)
        return coordinates

    def ticks(self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_name: str, y_name: str) -> None:
        left, top, right, bottom = self.box
        for value in y_ticks:
            self.line([(self.x.low, value), (self.x.high, value)], "axis")
            self.picture.text((left - 6, self.y(value) + 4), tick_text(value), "tick", "end")
        for value in x_ticks:
            self.line([(value, self.y.low), (value, self.y.high)], "axis")
            self.picture.text((self.x(value), bottom + 16), tick_text(value), "tick", "middle")
        self.picture.text(((left + right) / 2, bottom + 36), x_name, "tick", "middle")
        if y_name:
            x = left - 52 if left > 60 else 14
            self.picture.text((x, (top + bottom) / 2), y_name, "tick", "middle", turned=True)


def tick_text(value: float) -> str:
    """Formats the label of a tick, such as 1,500, 0.02 or 3e+09."""
    return digits(value) if 1000 <= abs(value) < 1e6 else f"{0 if abs(value) < 1e-12 else value:.4g}"
