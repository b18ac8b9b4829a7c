#!/usr/bin/env python3
"""Checks that sources include only what the tables of docs/architecture.md allow, that no folders include each other in
a circle, that no source is too long, and that kernels wait for each other's roles by kernels/pipe/ alone.

python3 scripts/check_includes.py [ROOT]    ROOT: the tree to check, this one by default
"""

import fnmatch
import pathlib
import re
import sys

SUFFIXES = (".c", ".cpp", ".cu", ".cuh", ".h", ".hpp")
MOST_LINES = 550
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
NAME = re.compile(r"`([^`]+)`")
# How roles of a kernel wait for each other and share registers; kernels/pipe/ has types for it.
SYNCHRONISATION = re.compile(
    r"\b(?:mbarrier_(?:try_)?wait\w*|mbarrier_init|bar_sync|bar_arrive|setmaxnreg_\w+)\b|\bphase \^="
)
# What a cell may consist of: names in backticks with commas between them, or a dash for nothing.
CELL = re.compile(r"-|`[^`]+`(, `[^`]+`)*")


class Tree:
    """The sources below `root`, and the rules for them in its docs/architecture.md."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.problems: list[str] = []
        self.rules = self._table("may include")
        self.homes = self._table("only in")
        self.generator = root / "kernels/variants.py"
        tops = [p for p in root.iterdir() if p.is_dir() and p.name[0] != "." and p.name not in ("build", "dist")]
        self.files = sorted(p for top in tops for p in (top, *top.rglob("*")))
        # Folders to those that they include, each with the first line that does.
        self.arrows: dict[str, dict[str, str]] = {}

    def _table(self, last: str) -> dict[str, list[str]]:
        """The table whose last column has that title: names of the first column to names of the last."""
        rows: dict[str, list[str]] = {}
        inside = False
        for number, line in enumerate((self.root / "docs/architecture.md").read_text().splitlines(), 1):
            cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
            inside = bool(cells) and (inside or cells[-1] == last)
            if not inside or cells[-1] == last or set(cells[-1]) == {"-"} and len(cells[-1]) > 1:
                continue
            if not NAME.fullmatch(cells[0]) or not CELL.fullmatch(cells[-1]):
                self.problems.append(f"docs/architecture.md:{number}: expected `name` | ... | `name`, `name` or -")
            else:
                rows[cells[0].strip("`").rstrip("/")] = [name.rstrip("/") for name in NAME.findall(cells[-1])]
        if not rows:
            self.problems.append(f'docs/architecture.md: there is no table with a column "{last}"')
        return rows

    def place_of(self, path: pathlib.Path) -> tuple[str, str] | None:
        """The row that `path` belongs to, and the folder that it stands for: the nearest one that has a row."""
        relative = path.relative_to(self.root)
        for place in map(str, (relative, *relative.parents)):
            names = [name for name in self.rules if name.count("/") == place.count("/")]
            row = place if place in names else next((name for name in names if fnmatch.fnmatch(place, name)), None)
            if row:
                return row, row if place == str(relative) else place
        return None

    def header(self, source: pathlib.Path, include: str) -> pathlib.Path | None:
        """The file of ours that a quoted include names; it need not exist when the build makes it."""
        parts = source.relative_to(self.root).parts
        bases = [source.parent, *(self.root / base for base in ("include", "src", "emulator/include", "."))]
        if parts[0] == "tests":
            bases += [self.root / "tests", self.root / "tests" / parts[1]]
        found = next((base / include for base in bases if (base / include).is_file()), None)
        return self.root / include if found is None and self.is_generated(include) else found

    def is_generated(self, include: str) -> bool:
        """Whether kernels/variants.py makes the header when the kernels are built."""
        folder, _, name = include.rpartition("/")
        if folder != "kernels" or not self.generator.is_file():
            return False
        return f"include/kernels/{name}" in self.generator.read_text()

    def check_rows(self) -> None:
        """Rows and names in them that stand for nothing are mistakes, or left behind."""
        every = [str(p.relative_to(self.root)) for p in self.files]
        for row, allowed in self.rules.items():
            for name in (row, *allowed):
                if not fnmatch.filter(every, name) and not self.is_generated(name):
                    self.problems.append(f"docs/architecture.md: `{name}` of the row `{row}` does not exist")

    def check_source(self, path: pathlib.Path) -> None:
        lines = path.read_text().splitlines()
        relative = path.relative_to(self.root)
        if len(lines) > MOST_LINES:
            self.problems.append(f"{relative}: has {len(lines)} lines; split it, {MOST_LINES} are allowed")
        if path.suffix not in SUFFIXES:
            return
        place = self.place_of(path)
        if place is None:
            self.problems.append(f"{relative}: its folder has no row in docs/architecture.md")
            return
        for number, line in enumerate(lines, 1):
            problem = self.problem_in(line, path, *place, number)
            if problem:
                self.problems.append(f"{relative}:{number}: {problem}")

    def room_of(self, path: pathlib.Path) -> str:
        """The folder of a file, or its row: one of files, or one that lets its folders include each other."""
        relative = path.relative_to(self.root)
        row, _ = self.place_of(path) or ("", "")
        is_of_files = row.count("/") == str(relative).count("/")
        return row if is_of_files or f"{row}/*" in self.rules.get(row, ()) else str(relative.parent)

    def add_arrow(self, source: pathlib.Path, header: pathlib.Path, where: str) -> None:
        start, end = self.room_of(source), self.room_of(header)
        if start != end:
            self.arrows.setdefault(start, {}).setdefault(end, where)

    def check_circles(self) -> None:
        """Folders that include each other are one folder; no row can say which of them stands on which."""
        left = dict(self.arrows)
        while leaves := [folder for folder, ends in left.items() if not left.keys() & ends.keys()]:
            for folder in leaves:
                del left[folder]
        walk = [next(iter(left))] if left else []
        while walk and walk[-1] not in walk[:-1]:
            walk.append(next(end for end in left[walk[-1]] if end in left))
        circle = walk[walk.index(walk[-1]) :] if walk else []
        for start, end in zip(circle, circle[1:], strict=False):
            self.problems.append(
                f"{self.arrows[start][end]}: {start} includes {end}, in the circle {' -> '.join(circle)}"
            )

    def problem_in(self, line: str, path: pathlib.Path, row: str, place: str, number: int) -> str:
        if row == "include/fovea" and re.match(r"\s*#\s*if", line):
            return "public headers have no #if"
        match = INCLUDE.match(line)
        if not match:
            by_hand = row.startswith("kernels") and row not in ("kernels/pipe", "kernels/ptx")
            call = by_hand and SYNCHRONISATION.search(line.partition("//")[0])
            return f"`{call[0]}` by hand: use the types of kernels/pipe" if call else ""
        style, include = match.groups()
        for prefix, homes in self.homes.items():
            if include.startswith(prefix) and row not in homes:
                return f"<{include}> may be included only in {' and '.join(homes)}"
        if style == "<":
            return ""
        header = self.header(path, include)
        if header is None:
            return f'"{include}" is not found: name it from include/, src/, emulator/include/ or the root'
        owner = self.place_of(header)
        names = {str(header.relative_to(self.root)), owner[1] if owner else ""}
        free = place in names or "include/fovea" in names
        if free or any(fnmatch.fnmatch(name, allowed) for name in names for allowed in self.rules[row]):
            self.add_arrow(path, header, f"{path.relative_to(self.root)}:{number}")
            return ""
        return f'{place} may not include "{include}" of {owner[1] if owner else "no row"}'


def main() -> int:
    tree = Tree(
        pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    )
    tree.check_rows()
    sources = [p for p in tree.files if p.suffix in (*SUFFIXES, ".py")]
    for path in sources:
        tree.check_source(path)
    tree.check_circles()
    print("\n".join(tree.problems) if tree.problems else f"include graph and lengths: {len(sources)} files obey them")
    return 1 if tree.problems else 0


if __name__ == "__main__":
    sys.exit(main())
