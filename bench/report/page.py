"""Makes one HTML page of the laboratory's results, without scripts or external resources."""

import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Sequence

from report import evolution, kernels, profiles, shapes, verdicts
from report.markup import Html, element, join_html, printable
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
GENERATOR = b'<meta name="generator" content="Fovea">'  # identifies pages that Fovea wrote

Section = Callable[[Sequence[Document]], Html]


def filter_kind(kind: str, render: Section) -> Section:
    return lambda documents: render([document for document in documents if document.kind == kind])


def tables(kind: str, *make_tables: Callable) -> Section:
    return filter_kind(kind, lambda documents: join_html(*(table(documents).html() for table in make_tables)))


# Sections by their ids in the page: title, and a function that renders the documents (oldest first) or returns "".
SECTIONS: dict[str, tuple[str, Section]] = {
    "roofline": ("Kernels below their roofs", filter_kind("bench", kernels.roofline)),
    "encoder": ("The encoder", filter_kind("bench", kernels.encoder)),
    "profiles": ("What warps wait for", filter_kind("profile", profiles.profile_page)),
    "gates": ("Gates", filter_kind("gates", profiles.gates_page)),
    "compare": ("Comparisons", tables("compare", verdicts.comparisons)),
    "evolve": ("Evolution", filter_kind("ledger", evolution.page)),
    "history": ("History", filter_kind("bench", kernels.history)),
    "sanitizers": ("Sanitizers", verdicts.sanitizers_page),
    "verdicts": ("Verdicts on known differences", tables("verdicts", verdicts.known_differences)),
    "trials": ("Made to go wrong", lambda documents: join_html(
        tables("hostile", verdicts.misdeeds)(documents),
        tables("gate_planted", verdicts.planted_gates, verdicts.planted_choices)(documents))),
    "judge": ("Foreign kernels", tables("judge", verdicts.judgements)),
}  # fmt: skip


def without_damage(document: Document) -> tuple[Document | None, list[str]]:
    """Returns the document without its damaged parts, or None, and a message for each part that is left out."""
    left_out, valid_parts = [], []
    for content, shape, name in parts(document):
        try:
            shapes.check(content, shape, name)
            valid_parts.append(name)
        except Damaged as error:
            left_out.append(str(error))
    if document.kind == "bench":
        document.json = {name: document.json[name] for name in valid_parts}
    elif document.kind not in shapes.KINDS:
        left_out.append(f'the page has no section for documents of kind "{document.kind}"')
    which = "in part: " if valid_parts else ""
    return (document if valid_parts else None), [
        f"{document.path}: {which}{reason}" for reason in dict.fromkeys(left_out)
    ]


def machines(documents: Sequence[Document]) -> Html:
    """Renders each machine with its newest driver, clock and commit. Results may lack some of these."""
    machine_details: dict[str, dict[str, str]] = {}
    for document in documents:
        gpu, versions = (document.part(name) for name in ("gpu", "versions"))
        driver, clock = (
            gpu.get("driver") or versions.get("driver"),
            gpu.get("max_sm_clock_mhz") or gpu.get("most_sm_mhz"),
        )
        details = {
            "driver": f"driver {driver}" if driver else "", "clock": f"SM clock up to {clock} MHz" if clock else "",
            "when": f"newest result of {document.when}" if document.date else "",
        }  # fmt: skip
        machine_details[document.device] = machine_details.get(document.device, {}) | {
            key: hardware for key, hardware in details.items() if hardware
        }
    lines = []
    for device, details in sorted(machine_details.items()):
        hardware = ", ".join(filter(None, [device, details.get("driver"), details.get("clock")]))
        lines += [element("p", "; ".join(filter(None, [hardware, details.get("when")]))), "\n"]
    return join_html(*lines)


def page(inputs: Iterable[pathlib.Path]) -> tuple[Html, int, list[str]]:
    """Returns the page, the number of documents that it shows, and messages for those left out. Raises `Damaged` where
    there is nothing to show."""
    paths, left_out = files(inputs)
    documents = []
    for path in paths:
        try:
            document, reasons = without_damage(read(path))
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
        document.provenance = ", ".join(filter(None, [document.device, document.date and document.when]))
    body = {name: (title, html) for name, (title, render) in SECTIONS.items() if (html := render(documents))}
    if left_out:
        body["left-out"] = "Left out", element("ul", "\n", *(join_html(element("li", line), "\n") for line in left_out))
    links = (element("a", title, href=f"#{name}") for name, (title, _) in body.items())
    count = f"From {len(documents)} file{'s' * (len(documents) != 1)} of results."
    written = [
        element("section", "\n", element("h2", title), "\n", html, id=name) for name, (title, html) in body.items()
    ]
    navigation = element("nav", *links, aria_label="Sections")
    document_html = join_html(
        Html(HEAD.format(title=TITLE, style=STYLE.read_text())),
        element("header", element("h1", TITLE), "\n", machines(documents), navigation), "\n",
        element("main", *(join_html(section, "\n") for section in written)), "\n",
        element("footer", f"{count} Made by Fovea."), Html("\n</body>\n</html>\n"),
    )  # fmt: skip
    return document_html, len(documents), left_out


def write(path: pathlib.Path, text: str, overwrite: bool) -> None:
    """Writes the page atomically. A file that Fovea did not write is replaced only with --overwrite."""
    if path.exists() and not overwrite and GENERATOR not in path.read_bytes()[:65536]:
        raise Damaged(f"{path} was not written by Fovea; choose another name, or add --overwrite to replace it")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
