"""Computes the age of results: the number of commits since the measured one to the folders that the figures depend on.
A table in CONTRIBUTING.md, which this module reads, gives these folders and the largest age allowed."""

import dataclasses
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "CONTRIBUTING.md"
# Commits beyond the limit before a page fails its check, so that a commit near a limit does not have to regenerate it.
GRACE = 10
ROW = re.compile(r"^\| (GPU|CPU|any) \| [^|]+ \| ((?:`\w+` ?)+) \| ((?:`[\w/]+/` ?)+) \| (\d+) \|", re.M)


def git(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@functools.cache
def age_limits(text: str | None = None) -> dict[tuple[str, str], tuple[tuple[str, ...], int]]:
    """Returns the folders that a result depends on and the largest age allowed, by ("GPU" or "CPU", section)."""
    limits: dict = {}
    for where, names, folders, limit in ROW.findall(text if text is not None else TABLE.read_text()):
        for hardware in ("GPU", "CPU") if where == "any" else (where,):
            limits |= {
                (hardware, name): (tuple(re.findall(r"`([\w/]+)/`", folders)), int(limit))
                for name in re.findall(r"`(\w+)`", names)
            }
    return limits


@functools.cache
def commits(measured: str, until: str, folders: tuple[str, ...]) -> int | None:
    """Returns the number of commits to these folders from the measured commit to `until`, or None where the measured
    commit is not an ancestor of `until`."""
    if not re.fullmatch(r"[0-9a-f]{7,40}", measured) or git("merge-base", "--is-ancestor", measured, until).returncode:
        return None
    return int(git("rev-list", "--count", f"{measured}..{until}", "--", *folders).stdout)


@dataclasses.dataclass(frozen=True)
class Age:
    count: int
    limit: int
    folders: tuple[str, ...]

    @property
    def allowed(self) -> bool:
        return self.count <= self.limit

    @property
    def overdue(self) -> bool:
        return self.count > self.limit + GRACE

    def __str__(self) -> str:
        *others, last = (f"`{folder}/`" for folder in self.folders)
        return f"{self.count} commit{'s' * (self.count != 1)} to {', '.join(others) + ' and ' if others else ''}{last} ago ({self.limit} are allowed)"


def age(name: str, machine: dict, until: str) -> Age:
    """Returns the age of a result of this machine. Exits for a result that must not be committed: one of a commit
    outside of this history, or of a section that the table does not list."""
    where = "GPU" if machine.get("gpu") else "CPU"
    if (where, name) not in age_limits():
        sys.exit(f"{TABLE.name} gives no age limit for `{name}` on a {where}")
    folders, limit = age_limits()[where, name]
    count = commits(machine.get("commit", "unknown"), until, folders)
    if count is None:
        sys.exit(
            f"{name} was measured at commit {machine.get('commit', 'unknown')}, which is not an ancestor of "
            f"{until[:12]}: measure it with a program that was built from a commit of this history"
        )
    return Age(count, limit, folders)


def base_commit() -> str:
    """Returns the commit up to which ages are counted: the newest one that is also on main, because later ones may
    still be rebased."""
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        sys.exit("cannot count commits in a shallow clone; run git fetch --unshallow")
    ancestor = git("merge-base", "HEAD", "main")
    return (ancestor.stdout if ancestor.returncode == 0 else git("rev-parse", "HEAD").stdout).strip()[:12]
