"""Formats comparisons of a figure with those of its peers, for the sections of docs/performance.md."""

from report.tables import escape_markdown, fields

UNTOLD = "the run has neither a figure nor a reason"


def is_fovea(entry: dict) -> bool:
    return entry["engine"].startswith("fovea")


def ratio(ours: float, rivals) -> str:
    """Returns Fovea's rate as a multiple of the best rival's; below 1 Fovea is slower."""
    best = max(rivals, default=None)
    return f"{ours / best:.2f}x" if best else "no peer"


def ratio_to_precision(precision: str, ours: float, rivals: list[float], other: str) -> str:
    """Returns the ratio to rivals that all run in precision `other`. Rivals of another precision are not peers, so
    their ratio is put in brackets, with their precision."""
    ratio_text = ratio(ours, rivals)
    return ratio_text if precision == other or not rivals else f"no peer ({ratio_text} those in {other})"


def skipped(entries: list[dict], names: str = "engine precision") -> list[tuple[str, str]]:
    """Returns the entries without a figure, as pairs of their fields `names` and the reason."""
    return [(" ".join(fields(entry, names)), entry["skipped"]) for entry in entries if "skipped" in entry]


def missing(precisions: dict, peers: dict[str, tuple[str, ...]], known: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the peers of these precisions that the run does not mention, with UNTOLD as the reason."""
    expected = [(peer, precision) for precision in precisions for peer in peers.get(precision, ())]
    return [(f"{peer} {precision}", UNTOLD) for peer, precision in expected if (peer, precision) not in known]


def skipped_sentence(reasons) -> str:
    """Returns a sentence that lists entries without a figure, from pairs of name and reason. A shared reason is given
    once."""
    by_reason: dict = {}
    for names, why in reasons:
        by_reason.setdefault(why, []).append(names)
    sentence = "; ".join(f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in by_reason.items())
    return f"\nNot measured: {escape_markdown(sentence)}.\n" if sentence else ""
