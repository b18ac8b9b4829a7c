"""Builds HTML and SVG, element by element. Anything that is not `Html` is escaped as text, so that the content of a
result file never becomes markup."""

import html
import re


class Html(str):
    """Text that is markup already, and is not escaped."""


def printable(text: object) -> str:
    """Returns the text on one line, with escapes for unprintable characters and terminal controls."""
    one_line = re.sub(r"\s*\n\s*", " ", str(text))
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in one_line)


def join_html(*parts: object) -> Html:
    return Html(
        "".join(part if isinstance(part, Html) or part == "\n" else html.escape(printable(part)) for part in parts)
    )


def element(tag: str, *inside: object, **attributes: object) -> Html:
    """Returns an element. `class_` gives the attribute class, a reserved word in Python, and `data_of` gives data-of;
    an attribute that is None is left out."""
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    named = "".join(f' {name}="{join_html(value)}"' for name, value in pairs)
    return Html(f"<{tag}{named}>{join_html(*inside)}</{tag}>")


def breakable(name: str) -> Html:
    """Returns a name with a possible line break after each underscore."""
    return Html(join_html(name).replace("_", "_<wbr>"))


def code_spans(text: str) -> Html:
    """Returns the text with the part between backticks as a code element."""
    match = re.fullmatch(r"([^`]*)`(.*)`([^`]*)", text, re.S)
    return join_html(match[1], element("code", match[2]), match[3]) if match else join_html(text)


def folded(summary: str, *inside: object) -> Html:
    return Html(element("details", element("summary", summary), "\n", *inside) + "\n")


def figure(title: object, *inside: object) -> Html:
    return Html(element("figure", element("figcaption", title), "\n", *inside) + "\n")
