"""Summarises the cards' speed gates and comparisons with earlier times, as measured by `fovea kernel bench`, for
results and for the page."""

import contextlib
import json
import pathlib
import shutil
import tempfile

import machine

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
MOST_NAMES = 10  # cases that are listed by name in a sentence


@contextlib.contextmanager
def earlier_results(result: pathlib.Path):
    """Yields an argument for --against: a folder with the earlier results of this GPU, without the file of the current
    run, or "none"."""
    name = machine.gpu().get("name")
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(RESULTS.glob("*/*.json")):
            is_own = path.resolve() == result.resolve()
            if not is_own and name and json.loads(path.read_text())["machine"].get("gpu", {}).get("name") == name:
                shutil.copy(path, folder)
        yield folder if any(pathlib.Path(folder).iterdir()) else "none"


def summary(kernels: dict) -> dict:
    """Summarises the section `kernels` of a result: the number of cases with speed gates, the missed gates, and the
    cases that became slower."""
    gated_figures = [figure for figure in kernels["figures"] if figure.get("gates")]
    missed = [
        {"card": figure["card"], "case": figure.get("case", "")}
        | {key: gate[key] for key in ("peer", "reading", "limit")}
        for figure in gated_figures
        for gate in figure["gates"]
        if not gate["passed"]
    ]
    changes = kernels.get("times", [])
    return {
        "cases": len(gated_figures),
        "missed": missed,
        "compared": len(changes),
        "slower": [change for change in changes if change["verdict"] == "SLOWER"],
        "not_judged": [change for change in changes if change["verdict"] == "not judged"],
    }


def describe(kernels: dict) -> str:
    """Returns the summary as text, which is empty for results without gates and comparisons."""
    counts = summary(kernels)
    text = ""
    if counts["cases"]:
        missed_cases = {(gate["card"], gate["case"]) for gate in counts["missed"]}
        text += f"\nSpeed gates: {counts['cases'] - len(missed_cases)} of {counts['cases']} cases reach all of theirs."
        for gate in counts["missed"]:
            reading = f"{gate['reading']:.2f}x" if gate["reading"] else "not measured,"
            text += f" **{gate['card']} {gate['case']} misses: {reading} of {gate['peer']}, at least {gate['limit']:.2f}x asked.**"
        text += "\n"
    if counts["compared"]:
        text += f"\nBeside the earlier results of this GPU {len(counts['slower'])} of {counts['compared']} times are more than 5% longer."
        for change in counts["slower"]:
            text += f" **{change['what']}: {change['change']:+.1%}, {change['peer']} {change['peer_change']:+.1%} ({change['file']}).**"
        if counts["not_judged"]:
            reasons: dict[str, list[str]] = {}
            for change in counts["not_judged"]:
                reasons.setdefault(change["reason"], []).append(change["what"])
            groups = [
                f"{', '.join(names) if len(names) <= MOST_NAMES else f'{len(names)} cases'}, {why}"
                for why, names in reasons.items()
            ]
            text += f" Not judged: {'; '.join(groups)}."
        text += "\n"
    return text
