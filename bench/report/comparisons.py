"""How a figure is told beside those of its peers, for the sections of docs/performance.md."""

from report.tables import fields, foreign

UNTOLD = "the run has neither a figure nor a reason"


def is_fovea(entry: dict) -> bool:
    return entry["engine"].startswith("fovea")


def ratio(ours: float, rivals) -> str:
    """Our rate as a multiple of the best rival's; below 1 we lose."""
    best = max(rivals, default=None)
    return f"{ours / best:.2f}x" if best else "no peer"


def ratio_in(precision: str, ours: float, rivals: list[float], other: str) -> str:
    """The same where all rivals are in one precision: beside those of another nothing is won, and it says which that
    is."""
    beside = ratio(ours, rivals)
    return beside if precision == other or not rivals else f"no peer ({beside} those in {other})"


def skipped(entries: list[dict], names: str = "engine precision") -> list[tuple[str, str]]:
    """Entries without a figure, by their fields of these names, each with its reason."""
    return [(" ".join(fields(entry, names)), entry["skipped"]) for entry in entries if "skipped" in entry]


def missing(precisions: dict, peers: dict[str, tuple[str, ...]], told: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The peers of these precisions of which the run says nothing."""
    asked = [(peer, precision) for precision in precisions for peer in peers.get(precision, ())]
    return [(f"{peer} {precision}", UNTOLD) for peer, precision in asked if (peer, precision) not in told]


def left_out(reasons) -> str:
    """Sentence that names what has no figure, from pairs of name and reason. A shared reason is given once."""
    by_reason: dict = {}
    for names, why in reasons:
        by_reason.setdefault(why, []).append(names)
    told = "; ".join(f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in by_reason.items())
    return f"\nNot measured: {foreign(told)}.\n" if told else ""
