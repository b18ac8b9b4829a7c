"""One HTML page of what the laboratory measured, which needs no network and no script."""

import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Sequence

from report import evolution, kernels, profiles, shapes, verdicts
from report.markup import Html, element, joined, printable
from report.results import Document, files, parts, read
from report.shapes import Damaged

STYLE = pathlib.Path(__file__).with_name("page.css")
TITLE = "Kernel laboratory"
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Fovea">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
"""
GENERATOR = b'<meta name="generator" content="Fovea">'  # by it a page of ours is known

Section = Callable[[Sequence[Document]], Html]


def only(kind: str, render: Section) -> Section:
    return lambda documents: render([document for document in documents if document.kind == kind])


def tables(kind: str, *made: Callable) -> Section:
    return only(kind, lambda documents: joined(*(table(documents).html() for table in made)))


# Sections by their ids in the page: the title, and the section of the documents from the oldest to the newest; empty where it has nothing to show.
SECTIONS: dict[str, tuple[str, Section]] = {
    "roofline": ("Kernels below their roofs", only("bench", kernels.roofline)),
    "encoder": ("The encoder", only("bench", kernels.encoder)),
    "profiles": ("What warps wait for", only("profile", profiles.profile_page)),
    "gates": ("Gates", only("gates", profiles.gates_page)),
    "compare": ("Comparisons", tables("compare", verdicts.comparisons)),
    "evolve": ("Evolution", only("ledger", evolution.page)),
    "history": ("History", only("bench", kernels.history)),
    "sanitizers": ("Sanitizers", verdicts.sanitizers_page),
    "verdicts": ("Verdicts on known differences", tables("verdicts", verdicts.known_differences)),
    "trials": ("Made to go wrong", lambda documents: joined(
        tables("hostile", verdicts.misdeeds)(documents),
        tables("gate_planted", verdicts.planted_gates, verdicts.planted_choices)(documents))),
    "judge": ("Foreign kernels", tables("judge", verdicts.judgements)),
}  # fmt: skip


def sound(document: Document) -> tuple[Document | None, list[str]]:
    """What can be shown of it, without the parts that are damaged, and what is left out."""
    left_out, kept = [], []
    for content, shape, name in parts(document):
        try:
            shapes.check(content, shape, name)
            kept.append(name)
        except Damaged as error:
            left_out.append(str(error))
    if document.kind == "bench":
        document.json = {name: document.json[name] for name in kept}
    elif document.kind not in shapes.KINDS:
        left_out.append(f'it is of the kind "{document.kind}", for which this page has no section')
    which = "in part: " if kept else ""
    return (document if kept else None), [f"{document.path}: {which}{reason}" for reason in dict.fromkeys(left_out)]


def machines(documents: Sequence[Document]) -> Html:
    """Each machine with its newest driver, clock and commit; not every result says all of it."""
    found: dict[str, dict[str, str]] = {}
    for document in documents:
        gpu, versions = (document.part(name) for name in ("gpu", "versions"))
        driver, clock = (
            gpu.get("driver") or versions.get("driver"),
            gpu.get("max_sm_clock_mhz") or gpu.get("most_sm_mhz"),
        )
        told = {
            "driver": f"driver {driver}" if driver else "", "clock": f"SM clock up to {clock} MHz" if clock else "",
            "when": f"newest result of {document.when}" if document.date else "",
        }  # fmt: skip
        found[document.device] = found.get(document.device, {}) | {key: words for key, words in told.items() if words}
    lines = []
    for device, told in sorted(found.items()):
        words = ", ".join(filter(None, [device, told.get("driver"), told.get("clock")]))
        lines += [element("p", "; ".join(filter(None, [words, told.get("when")]))), "\n"]
    return joined(*lines)


def page(inputs: Iterable[pathlib.Path]) -> tuple[Html, int, list[str]]:
    """The page, how many documents it shows, and what was left out. Raises `Damaged` where there is nothing to show."""
    paths, left_out = files(inputs)
    documents = []
    for path in paths:
        try:
            document, reasons = sound(read(path))
        except Damaged as error:
            document, reasons = None, [str(error)]
        documents += [document] if document else []
        left_out += reasons
    left_out = [printable(line) for line in left_out]
    if not documents:
        why = left_out[0] if left_out else "these folders hold no results (.json, .jsonl)"
        raise Damaged(f"there is nothing to show: {why}")
    documents.sort(key=lambda document: document.order)
    for document in documents:
        document.told = ", ".join(filter(None, [document.device, document.date and document.when]))
    body = {name: (title, html) for name, (title, render) in SECTIONS.items() if (html := render(documents))}
    if left_out:
        body["left-out"] = "Left out", element("ul", "\n", *(joined(element("li", line), "\n") for line in left_out))
    links = (element("a", title, href=f"#{name}") for name, (title, _) in body.items())
    count = f"From {len(documents)} file{'s' * (len(documents) != 1)} of results."
    written = [
        element("section", "\n", element("h2", title), "\n", html, id=name) for name, (title, html) in body.items()
    ]
    navigation = element("nav", *links, aria_label="Sections")
    made = joined(
        Html(HEAD.format(title=TITLE, style=STYLE.read_text())),
        element("header", element("h1", TITLE), "\n", machines(documents), navigation), "\n",
        element("main", *(joined(section, "\n") for section in written)), "\n",
        element("footer", f"{count} Made by Fovea."), Html("\n</body>\n</html>\n"),
    )  # fmt: skip
    return made, len(documents), left_out


def write(path: pathlib.Path, text: str, overwrite: bool) -> None:
    """The whole page or nothing. A file that is no page of ours is replaced with --overwrite alone."""
    if path.exists() and not overwrite and GENERATOR not in path.read_bytes()[:65536]:
        raise Damaged(f"{path}: this file is no page of Fovea; choose another name, or add --overwrite to replace it")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
