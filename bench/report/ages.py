"""How old results are: the commits since the measured one to the folders that their figures depend on. CONTRIBUTING.md
says, in a table that this reads, which folders these are and how many commits are too many."""

import dataclasses
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "CONTRIBUTING.md"
GRACE = 10  # commits more until what a page shows fails: not each commit near a limit has to write the page anew
ROW = re.compile(r"^\| (GPU|CPU|any) \| [^|]+ \| ((?:`\w+` ?)+) \| ((?:`[\w/]+/` ?)+) \| (\d+) \|", re.M)


def git(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


@functools.cache
def limits(text: str | None = None) -> dict[tuple[str, str], tuple[tuple[str, ...], int]]:
    """Folders that a result depends on and the most commits to them, by the machine ("GPU" or "CPU") and the section."""
    found: dict = {}
    for where, names, folders, limit in ROW.findall(text if text is not None else TABLE.read_text()):
        for place in ("GPU", "CPU") if where == "any" else (where,):
            found |= {
                (place, name): (tuple(re.findall(r"`([\w/]+)/`", folders)), int(limit))
                for name in re.findall(r"`(\w+)`", names)
            }
    return found


@functools.cache
def commits(measured: str, until: str, folders: tuple[str, ...]) -> int | None:
    """How many commits to these folders there are from the measured one to `until`; None where it is not before that
    one."""
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
    """Age of a result of this machine. Ends the program for what must not be committed: a result of sources that
    no commit has, or of no kind that the table knows."""
    where = "GPU" if machine.get("gpu") else "CPU"
    if (where, name) not in limits():
        sys.exit(f"{TABLE.name} does not say how old `{name}` may be on a {where}")
    folders, limit = limits()[where, name]
    count = commits(machine.get("commit", "unknown"), until, folders)
    if count is None:
        sys.exit(
            f"{name} was measured at commit {machine.get('commit', 'unknown')}, which is none before {until[:12]}: measure it with a program that was built "
            "from a commit of this history"
        )
    return Age(count, limit, folders)


def base() -> str:
    """The commit until which a page that is written now counts: the last one of this history that main has, too, for
    others may be rebased."""
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        sys.exit("ages need the whole history of this repository: git fetch --unshallow")
    found = git("merge-base", "HEAD", "main")
    return (found.stdout if found.returncode == 0 else git("rev-parse", "HEAD").stdout).strip()[:12]
