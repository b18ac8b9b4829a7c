"""What `fovea kernel bench` says of the cards' speed gates and of earlier times: for results, and for the page made of
them."""

import contextlib
import json
import pathlib
import shutil
import tempfile

import machine

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
MOST_NAMES = 10  # of cases, in a sentence


@contextlib.contextmanager
def earlier_results(result: pathlib.Path):
    """What --against takes: a folder of the earlier results of this GPU, without the file that the run writes
    itself."""
    name = machine.gpu().get("name")
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(RESULTS.glob("*/*.json")):
            is_own = path.resolve() == result.resolve()
            if not is_own and name and json.loads(path.read_text())["machine"].get("gpu", {}).get("name") == name:
                shutil.copy(path, folder)
        yield folder if any(pathlib.Path(folder).iterdir()) else "none"


def summary(kernels: dict) -> dict:
    """Speed gates in the section `kernels` of a result: how many cases have any, which are missed, and what became
    slower."""
    asked = [figure for figure in kernels["figures"] if figure.get("gates")]
    missed = [
        {"card": figure["card"], "case": figure.get("case", "")}
        | {key: gate[key] for key in ("peer", "reading", "limit")}
        for figure in asked
        for gate in figure["gates"]
        if not gate["passed"]
    ]
    changes = kernels.get("times", [])
    return {
        "cases": len(asked),
        "missed": missed,
        "compared": len(changes),
        "slower": [change for change in changes if change["verdict"] == "SLOWER"],
        "not_judged": [change for change in changes if change["verdict"] == "not judged"],
    }


def told(kernels: dict) -> str:
    """The same in words; a result of before there were gates has none."""
    found = summary(kernels)
    text = ""
    if found["cases"]:
        of_missed = {(gate["card"], gate["case"]) for gate in found["missed"]}
        text += f"\nSpeed gates: {found['cases'] - len(of_missed)} of {found['cases']} cases reach all of theirs."
        for gate in found["missed"]:
            reading = f"{gate['reading']:.2f}x" if gate["reading"] else "not measured,"
            text += f" **{gate['card']} {gate['case']} misses: {reading} of {gate['peer']}, at least {gate['limit']:.2f}x asked.**"
        text += "\n"
    if found["compared"]:
        text += f"\nBeside the earlier results of this GPU {len(found['slower'])} of {found['compared']} times are more than 5% longer."
        for change in found["slower"]:
            text += f" **{change['what']}: {change['change']:+.1%}, {change['peer']} {change['peer_change']:+.1%} ({change['file']}).**"
        if found["not_judged"]:
            reasons: dict[str, list[str]] = {}
            for change in found["not_judged"]:
                reasons.setdefault(change["reason"], []).append(change["what"])
            told = [
                f"{', '.join(names) if len(names) <= MOST_NAMES else f'{len(names)} cases'}, {why}"
                for why, names in reasons.items()
            ]
            text += f" Not judged: {'; '.join(told)}."
        text += "\n"
    return text
